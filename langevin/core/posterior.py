"""Posterior: draws with their Info, the chains' ends, the kernel as tuned, and where it all came from."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import kernel as kernels
from langevin.core import schedule, sharding, tree
from langevin.core.provenance import Provenance
from langevin.core.record import as_record, is_record, is_static, show
from langevin.core.run import _begin, join, run
from langevin.core.store import Store, Stored, StoredInfo, StoreError, rebuild, skeleton, typed, write_file
from langevin.core.types import Eval, Info, Key, PyTree, State
from langevin.dynamics import mass as metric

GIVEN = ("observed_data", "constant_data", "predictions_constant_data")  # ArviZ groups without chains


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

    def more(self, key: Key, target: Any, draws: int, **options: Any) -> Posterior:
        """The same chains, `draws` draws longer."""
        if isinstance(self.kernel, str):
            raise TypeError(
                f"posterior: its kernel was loaded as text only ({self.kernel}), for it holds a function; "
                "give it the kernel with dataclasses.replace(posterior, kernel=…)."
            )
        began = time.perf_counter()
        go_on = run(key, self.kernel, target, _hung(self.state, self.kernel, target), draws=draws, **options)
        kept, info = join([(_loaded(self.draws), _loaded(self.info)), (_loaded(go_on.kept), _loaded(go_on.info))])
        past = dataclasses.asdict(self.provenance)
        past["seconds"] += time.perf_counter() - began
        past["n_grad"] += int(np.sum(go_on.info.n_grad, dtype=np.int64))
        past["n_data"] += int(np.sum(go_on.info.n_data, dtype=np.int64))
        return Posterior(kept, info, go_on.states, go_on.kernel, Provenance(**past))

    # --- files and other libraries ------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """A folder that `Posterior.load` reads; no pickle."""
        folder = Path(path)
        store = Store(folder)
        if folder.exists() and any(folder.iterdir()):
            raise StoreError(f"posterior: {folder} is not empty; save to another folder.")
        store.open({"posterior": 1}, self.kernel, (), self.state)
        begin = 0
        for block in self._blocks():
            n = jax.tree.leaves(block)[0].shape[1]
            info = Info(*(np.asarray(getattr(self.info, f))[:, begin : begin + n] for f in Info._fields))
            begin += n
            store.append(begin, self.kernel, (), self.state, (block, info))
        extra = dict(
            provenance=dataclasses.asdict(self.provenance),
            kernel=_kernel_as_json(self.kernel),
            state=[skeleton(part) for part in (*self.state[:3], *self.state.eval, *self.state[4:])],
            state_dtypes=[str(jnp.result_type(u)) for u in jax.tree.leaves(self.state)],
            kernel_dtypes=[str(jnp.result_type(u)) for u in jax.tree.leaves(self.kernel)],
            kernel_text=repr(self.kernel),
        )
        store._guarded(lambda: write_file(folder / "posterior.json", json.dumps(extra, indent=1).encode()))

    @classmethod
    def load(cls, path: str | Path, like: PyTree = None) -> Posterior:
        """What `save` wrote. `like` gives the draws the structure of a position that is not made of dicts and lists."""
        folder = Path(path)
        try:
            extra = json.loads((folder / "posterior.json").read_text())
        except (OSError, ValueError) as error:
            raise StoreError(f"posterior: {folder} holds no saved posterior ({error}).") from None
        stored = Stored.at(folder, like)
        arrays = stored.store._read(stored.store.manifest["checkpoint"])
        of = lambda name: [typed(arrays[f"{name}.{i}"], d) for i, d in enumerate(extra[f"{name}_dtypes"])]
        state = _state_from(extra["state"], [jnp.asarray(u) for u in of("state")], like)
        past = extra["provenance"]
        past["seed"] = tuple(past["seed"])
        try:
            kernel = _kernel_from_json(extra["kernel"], of("kernel"))
        except (KeyError, TypeError, ValueError):  # a function or a tree that cannot be rebuilt without running code
            kernel = extra["kernel_text"]
        return cls(stored.load(), stored.store.info().load(), state, kernel, Provenance(**past))

    def to_arviz(self, fn: Callable[[PyTree], PyTree] | None = None, *, limit: int = 100, **groups: dict) -> Any:
        """An ArviZ InferenceData (0.x) or DataTree (1.x) of fn(position), or of the position itself if it is small.

        fn: what to name and export; a million weights are never exported unasked. Other groups (predictions,
        log_likelihood, observed_data …) are passed by name as dicts of arrays, (chain, draw, …) unless they are data.
        Diverged chains and draws that were not collected are left out of all of them.
        """
        first = next(iter(self._blocks()))
        if fn is None and tree.size(jax.tree.map(lambda u: u[0, 0], first)) > limit:
            raise ValueError(
                f"to_arviz: a position has more than {limit} numbers; pass fn to say what to export, or a larger limit."
            )
        values = self.map(fn) if fn is not None else _joined(list(self._blocks()))
        names = tree.names(values)
        names = ["x"] if names == [""] else [n or "x" for n in names]
        collected = self.weights() > 0
        chains, draws = np.flatnonzero(collected.any(1)), np.flatnonzero(collected.any(0))
        pick = lambda u: np.asarray(u)[np.ix_(chains, draws)]
        stats = {"lp": self.info.log_density, "acceptance_rate": self.info.acceptance}
        stats |= {"energy_error": self.info.energy_error, "n_steps": self.info.n_grad}
        posterior = dict(zip(names, jax.tree.leaves(values), strict=True))
        every = {"posterior": posterior, "sample_stats": stats} | groups
        cut = {g: {n: u if g in GIVEN else pick(u) for n, u in values.items()} for g, values in every.items()}
        return _arviz(cut)

    def _blocks(self) -> Iterator[PyTree]:
        yield from self.draws if isinstance(self.draws, Stored) else [self.draws]


def sample(key: Key, kernel: Any, target: Any, start: PyTree | State, *, draws: int, **options: Any) -> Posterior:
    """`run`, timed, as a Posterior. Options are those of `run`."""
    began = time.perf_counter()
    out = run(key, kernel, target, start, draws=draws, **options)
    seed = tuple(
        np.asarray(jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key).tolist()
    )
    n_grad, n_data = (int(np.sum(getattr(out.info, f), dtype=np.int64)) for f in ("n_grad", "n_data"))
    layout = "vmap" if options.get("mesh") else sharding.layout(out.states.position, out.info.ok.shape[0])
    known = dict(seed=seed, seconds=time.perf_counter() - began, n_grad=n_grad, n_data=n_data, layout=layout)
    return Posterior(out.kept, out.info, out.states, out.kernel, Provenance.now(**known))


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


def _arviz(groups: dict) -> Any:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz as az

        if int(az.__version__.split(".")[0]) >= 1:
            return az.from_dict(groups)
        return az.from_dict(**groups)


# --- states and kernels as JSON -------------------------------------------------------------------------------------


def _state_from(skeletons: list, leaves: list, like: PyTree) -> State:
    """The state of skeletons (position, aux, memory, log_density, grad, n_data, feed, count) and all their leaves.

    A part that JSON cannot describe (a module, a named tuple) takes the structure of `like` if it has as many leaves,
    else it is a tuple of its leaves, in order: `more` hangs them on what the kernel makes.
    """
    rest, parts = iter(leaves), []
    for i, body in enumerate(skeletons):
        here = [next(rest) for _ in range(_count(body))]
        if _is_plain(body) or (i == 0 and like is None):
            parts.append(rebuild(body, here))
        elif like is not None and len(here) == len(jax.tree.leaves(like)):
            parts.append(jax.tree.unflatten(jax.tree.structure(like), here))
        else:
            parts.append(tuple(here))
    position, aux, memory, log_density, grad, n_data, feed, count = parts
    return State(position, aux, memory, Eval(log_density, grad, n_data), feed, count)


def _hung(state: State, kernel: Any, target: Any) -> State:
    """The state on the structure this kernel makes on this target: a loaded one may have lost named nodes."""
    try:
        made = jax.eval_shape(_begin, jax.random.key(0), kernel, target, state.position)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise TypeError(
            f"posterior: the target does not take these positions ({type(error).__name__}); load them with `like`, "
            "a position of one chain, or look above for what the target says."
        ) from error
    if jax.tree.structure(made) == jax.tree.structure(state):  # type: ignore[operator]
        return state
    leaves, wanted = jax.tree.leaves(state), jax.tree.leaves(made)
    if [u.shape for u in leaves] != [u.shape for u in wanted]:
        raise TypeError("posterior: its state does not fit this kernel and target; sample anew from its positions.")
    return jax.tree.unflatten(jax.tree.structure(made), leaves)


def _count(body: Any) -> int:
    """How many leaves a skeleton has."""
    if isinstance(body, int):
        return 1
    ((kind, inner),) = body.items()
    return 0 if kind == "none" else sum(map(_count, inner.values() if isinstance(inner, dict) else inner))


def _is_plain(body: Any) -> bool:
    """Whether `rebuild` gives back the tree a skeleton was made from."""
    if isinstance(body, int):
        return True
    ((kind, inner),) = body.items()
    return kind == "none" or (
        kind != "paths" and all(map(_is_plain, inner.values() if isinstance(inner, dict) else inner))
    )


def _kernel_as_json(kernel: Any) -> Any:
    """Class names, static fields, and trees of numbers by their index among the kernel's leaves."""
    used = 0

    def encode(value):
        nonlocal used
        if is_record(value):
            fields = dataclasses.fields(value)
            body = {f.name: encode(getattr(value, f.name)) for f in fields if not is_static(f)}
            fixed = {f.name: _fixed(getattr(value, f.name)) for f in fields if is_static(f)}
            return {"class": type(value).__name__, "fields": body, "static": fixed}
        body, first = skeleton(value), used
        used += _count(body)
        return {"tree": body, "first": first} if _is_plain(body) else {"text": show(value)}

    return encode(kernel)


def _fixed(value: Any) -> Any:
    if isinstance(value, (str, int, float, bool, type(None))):
        return {"value": value}
    if type(value) is tuple:
        return {"tuple": [_fixed(v) for v in value]}
    return {"text": show(value)}


def _kernel_from_json(body: Any, leaves: list) -> Any:
    """The record; KeyError where a part of it was written as text only."""
    if "class" not in body:
        return rebuild(body["tree"], [u[()] if u.ndim == 0 else u for u in leaves[body["first"] :]])
    fields = {name: _kernel_from_json(value, leaves) for name, value in body["fields"].items()}
    return _class(body["class"])(**fields, **{name: _unfixed(value) for name, value in body["static"].items()})


def _unfixed(body: Any) -> Any:
    return tuple(_unfixed(v) for v in body["tuple"]) if "tuple" in body else body["value"]


def _class(name: str) -> type:
    """A record of this library or a registered kernel: a file names classes, it brings none."""
    for module in (schedule, metric, kernels):
        found = getattr(module, name, None)
        if isinstance(found, type) and dataclasses.is_dataclass(found) and found.__module__ == module.__name__:
            return found
    return kernels.named(name)
