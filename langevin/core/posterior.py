"""Posterior: draws with their Info, the chains' ends, the kernel as tuned, and where it all came from."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from langevin.core import arviz, display, document, sharding, tree
from langevin.core import progress as telling
from langevin.core.above import above
from langevin.core.advance import Collect
from langevin.core.bar import Bar
from langevin.core.callbacks import Figures
from langevin.core.files import StoreError
from langevin.core.kernel import Kernel, PerChain, law_in_words
from langevin.core.provenance import Provenance
from langevin.core.record import as_record
from langevin.core.restore import loaded_kernel, onto, reseat, storable
from langevin.core.run import Callback, join, run
from langevin.core.serialize import Unstored, decode
from langevin.core.shards import Stored, StoredInfo
from langevin.core.store import Store
from langevin.core.target import Target
from langevin.core.types import Info, Key, PyTree, State, position_of

DOCUMENT = "posterior"


@dataclasses.dataclass(frozen=True)
class Posterior:
    """What sampling gives.

    draws: a tree of (chain, draw, …), or `Stored` on disk. info: (chain, draw) each. state: the chains' ends.
    kernel: as tuned. provenance: seed, versions, device, seconds, gradients, commit.
    """

    draws: PyTree
    info: Info | StoredInfo
    state: State
    kernel: Any
    provenance: Provenance

    def __repr__(self) -> str:
        chains, draws = np.shape(self.info.ok)
        known = self.provenance
        spent = f"{known.n_grad:,} gradients in {known.seconds:.1f} s"
        lost = f", {len(self.diverged)} of them diverged" if self.diverged else ""
        return f"Posterior({chains} chains{lost} × {draws} draws by {display.show(self.kernel)}; {spent})"

    def _repr_html_(self) -> str:
        chains, draws = np.shape(self.info.ok)
        known, info = self.provenance, self.info
        rows = [("chains × draws", f"{chains} × {draws}"), ("kernel", display.show(self.kernel))]
        rows.append(("stationary distribution", law_in_words(self.kernel)))
        if self.diverged:
            rows.append(("chains that diverged", ", ".join(map(str, self.diverged))))
        rows.append(("draws", display.show(self.draws)))
        if np.any(np.asarray(info.acceptance) != 1):
            rows.append(("mean acceptance", f"{np.mean(np.asarray(info.acceptance)):.3f}"))
        rows.append(("cost", f"{known.n_grad:,} gradients in {known.seconds:.1f} s on {known.device}"))
        return display.page("Posterior", "", rows)

    @property
    def diverged(self) -> tuple[int, ...]:
        """Chains that are left out of every average."""
        return tuple(np.flatnonzero(~np.all(self.info.ok, axis=1)).tolist())

    def weights(self) -> np.ndarray:
        """(chain, draw) weights that sum to 1: e^log_weight, zero for chains that diverged."""
        log_weight = np.array(self.info.log_weight, np.float64)
        log_weight[list(self.diverged)] = -np.inf
        top = log_weight.max()
        if not np.isfinite(top):
            raise ValueError("posterior: no draw carries weight: every chain diverged or none was collected.")
        weight = np.exp(log_weight - top)
        return weight / weight.sum()

    def map(self, fn: Callable[[PyTree], PyTree]) -> PyTree:
        """fn of every draw: a tree of (chain, draw, …). Streams over what is on disk."""
        return _joined([sharding.host(_mapped(as_record(fn), block)) for block in self._blocks()])

    def expect(self, fn: Callable[[PyTree], PyTree]) -> PyTree:
        """The weighted mean of fn over draws; diverged chains and uncollected draws are left out."""
        weights, begin, total = self.weights(), 0, None
        for block in self._blocks():
            values = sharding.host(_mapped(as_record(fn), block))
            n = jax.tree.leaves(block)[0].shape[1]
            w = weights[:, begin : begin + n]
            # 0·NaN of a diverged chain must not reach the mean
            part = jax.tree.map(lambda v: np.tensordot(w, np.where(_spread(w, v) > 0, v, 0.0), 2), values)
            total = part if total is None else jax.tree.map(np.add, total, part)
            begin += n
        return total

    def predict(self, fn: Callable[[PyTree, Any], PyTree], x: Any, batch: int | None = None) -> PyTree:
        """fn(position, x) for every draw: (chain, draw, …). `batch` looks at that many inputs at a time."""
        sizes = [len(u) for u in jax.tree.leaves(x)]
        cuts = (
            [x] if batch is None else [jax.tree.map(lambda u: u[i : i + batch], x) for i in range(0, sizes[0], batch)]
        )
        rows = []
        for block in self._blocks():
            parts = [sharding.host(_predicted(as_record(fn), block, cut)) for cut in cuts]
            rows.append(jax.tree.map(lambda *p: np.concatenate(p, axis=2), *parts) if len(parts) > 1 else parts[0])
        return _joined(rows)

    def loaded(self) -> Posterior:
        """With draws and Info in memory, wherever they are now."""
        return dataclasses.replace(self, draws=_loaded(self.draws), info=_loaded(self.info))

    def more(self, key: Key, target: Any, draws: int, **options: Any) -> Posterior:
        """The same chains, `draws` draws longer."""
        if isinstance(self.kernel, Unstored):
            raise TypeError(self.kernel.sentence)
        began = time.perf_counter()
        go_on = run(key, self.kernel, target, reseat(self.state, self.kernel, target), draws=draws, **options)
        kept, info = join([(_loaded(self.draws), _loaded(self.info)), (_loaded(go_on.kept), _loaded(go_on.info))])
        past = dataclasses.asdict(self.provenance)
        past["seconds"] += time.perf_counter() - began
        past["n_grad"] += int(np.sum(go_on.info.n_grad, dtype=np.int64))
        past["n_data"] += int(np.sum(go_on.info.n_data, dtype=np.int64))
        return Posterior(kept, info, go_on.states, go_on.kernel, Provenance(**past))

    # --- files and other libraries ------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """A folder that `Posterior.load` reads; no pickle. A kernel that a file cannot hold is named in a warning."""
        folder = Path(path)
        store = Store(folder)
        if not store.is_empty():
            raise StoreError(f"posterior: {folder} is not empty; save to another folder.")
        store.open({"posterior": 1}, (), (), ())
        try:
            begin = 0
            for block in self._blocks():
                n = jax.tree.leaves(block)[0].shape[1]
                info = Info._make(np.asarray(getattr(self.info, f))[:, begin : begin + n] for f in Info._fields)
                begin += n
                store.append(begin, (), (), (), (block, info))
            kernel = storable(self.kernel)
            value = dict(kernel=kernel, state=self.state, provenance=self.provenance)
            store.guarded(lambda: document.save(folder, DOCUMENT, value))
        finally:
            store.close()

    @classmethod
    def load(cls, path: str | Path, like: PyTree = None) -> Posterior:
        """What `save` wrote. `like` gives the draws the structure of a position whose classes are not known here."""
        folder = Path(path)
        if not document.exists(folder, DOCUMENT):
            raise StoreError(f"posterior: {folder} holds no saved posterior (there is no {DOCUMENT}.json).")
        body, arrays = document.read(folder, DOCUMENT)
        stored = Stored.at(folder, like)
        try:
            state, past = decode(body["state"], arrays, lenient=True), decode(body["provenance"], arrays)
            state = state if like is None else state._replace(position=onto(state.position, like))
        except (TypeError, KeyError, AttributeError) as error:
            raise StoreError(f"posterior: {folder / DOCUMENT}.json holds no posterior ({error}).") from None
        info = StoredInfo(folder, stored.manifest).load()
        return cls(stored.load(), info, state, loaded_kernel(body.get("kernel"), arrays), past)

    def to_arviz(self, fn: Callable[[PyTree], PyTree] | None = None, *, limit: int = 100, **groups: dict) -> Any:
        """An ArviZ InferenceData (0.x) or DataTree (1.x) of fn(position), or of the position itself if it is small.

        fn: what to name and export; a million weights are never exported unasked. Other groups (predictions,
        log_likelihood, observed_data …) are passed by name as dicts of arrays, (chain, draw, …) unless they are data.
        Diverged chains and draws that were not collected are left out of all of them.
        """
        values = self.values(fn, limit=limit)
        return arviz.export(values, self.info, self.weights() > 0, groups)

    def values(self, fn: Callable[[PyTree], PyTree] | None = None, *, limit: int = 100) -> PyTree:
        """fn of every draw, or the draws themselves if a position has at most `limit` numbers: (chain, draw, …)."""
        first = next(iter(self._blocks()))
        if fn is None and tree.size(jax.tree.map(lambda u: u[0, 0], first)) > limit:
            raise ValueError(
                f"posterior: a position has more than {limit} numbers; pass fn to say what of it, or a larger limit."
            )
        return self.map(fn) if fn is not None else _joined(list(self._blocks()))

    def summary(self, fn: Callable[[PyTree], PyTree] | None = None, *, limit: int = 100) -> Any:
        """A pandas DataFrame: mean, sd, quantiles, Monte Carlo error, ESS and R̂ of every number of fn(position).

        fn: what to sum up; the position itself if it has at most `limit` numbers. Diverged chains and draws that were
        not collected are left out, and draws have their weights (`langevin.report.summary` has the formulas).
        """
        return above("summary")(self, fn, limit=limit)

    def plot(self, kind: str = "trace", *args: Any, **options: Any) -> Any:
        """A chart on Matplotlib, by its name in `langevin.plot`: trace, rank, forest, energy, and of predictions."""
        return above("plot")(self, kind, *args, **options)

    def _blocks(self) -> Iterator[PyTree]:
        yield from self.draws if isinstance(self.draws, Stored) else [self.draws]


def sample(
    key: Key,
    kernel: Kernel | PerChain,
    target: Target,
    start: PyTree | State,
    *,
    draws: int,
    warmup: int = 0,
    thin: int = 1,
    chunk: int = 500,
    collect: Collect = position_of,
    callbacks: Sequence[Callback] = (),
    store: str | Path | Store | None = None,
    mesh: Mesh | None = None,
    tune: Literal["auto"] | Callable[..., tuple[Any, State]] | None = None,
    progress: bool = False,
) -> Posterior:
    """Sample a target and return the draws as a Posterior.

    key: a random key, `langevin.key(seed)`.
    kernel: how chains move, such as SGLD(1e-3).
    target: what is sampled, such as Bayes(…) or Density(log_density).
    start: positions with a leading chain axis, or the states of an earlier run.
    draws: draws stored of every chain.
    warmup: draws before those, which are not stored.
    thin: steps of the kernel for each draw.
    chunk: draws of one compiled piece; callbacks run between pieces.
    collect: what is stored of a state; the position by default.
    callbacks: called after every chunk with a Progress, such as ProgressBar(draws) or EarlyStop().
    store: a folder to which draws are streamed; a run with the same folder resumes.
    mesh: devices for chains and data, made by `langevin.mesh`.
    tune: "auto" finds step size and metric from `start` before sampling (`langevin.tune.auto`); or a tuner
        (key, kernel, target, states) → (kernel, states). A run that resumes from a store is tuned again, alike.
    progress: show a bar with the time left, in a terminal or a notebook.
    """
    began, given = time.perf_counter(), key
    opened = Store(store) if isinstance(store, (str, Path)) else store
    stages = {"tune": 0.3} if tune is not None else {}
    with contextlib.ExitStack() as shown:
        if progress:
            bar = shown.enter_context(Bar(stages | {"sample": 1.0}))
            shown.enter_context(telling.listen(bar))
            callbacks = (*callbacks, Figures())
        if tune is not None:
            k_tune, key = jax.random.split(key)
            with telling.stage("tune"):
                kernel, start = _tuner(tune)(k_tune, kernel, target, start)
        how: dict[str, Any] = dict(warmup=warmup, thin=thin, chunk=chunk, collect=collect, callbacks=callbacks)
        shown.enter_context(telling.stage("sample") if progress else contextlib.nullcontext())
        out = run(key, kernel, target, start, draws=draws, store=opened, mesh=mesh, **how)
    seed = tuple(
        np.asarray(jax.random.key_data(given) if jnp.issubdtype(given.dtype, jax.dtypes.prng_key) else given).tolist()
    )
    n_grad, n_data = (int(np.sum(getattr(out.info, f), dtype=np.int64)) for f in ("n_grad", "n_data"))
    layout = "vmap" if mesh is not None else sharding.layout(out.states.position, out.info.ok.shape[0])
    seconds = opened.seconds() if opened is not None else time.perf_counter() - began
    known = dict(seed=seed, seconds=seconds, n_grad=n_grad, n_data=n_data, layout=layout)
    return Posterior(out.kept, out.info, out.states, out.kernel, Provenance.now(**known))


def _tuner(tune: Any) -> Callable[..., tuple[Any, State]]:
    if (isinstance(tune, str) and tune != "auto") or (not isinstance(tune, str) and not callable(tune)):
        raise ValueError(f"sample: tune is {tune!r}; it must be 'auto', a tuner such as langevin.tune.window, or None.")
    return above("tune") if tune == "auto" else tune


@jax.jit
def _mapped(fn, draws):
    return jax.vmap(jax.vmap(fn))(draws)


@jax.jit
def _predicted(fn, draws, x):
    one = lambda position: fn(position, x)
    # draws one after the other within a chain: predictions of all draws at once need not fit in memory
    return jax.vmap(lambda chain: jax.lax.map(one, chain, batch_size=16))(draws)


def _spread(w, v):
    return w.reshape(w.shape + (1,) * (v.ndim - 2))


def _joined(parts: list[PyTree]) -> PyTree:
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *p: np.concatenate(p, axis=1), *parts)


def _loaded(x: PyTree) -> PyTree:
    return x.load() if isinstance(x, (Stored, StoredInfo)) else x
