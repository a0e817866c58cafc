"""The host's half of the sampling loop: checks, start, chunks, store, callbacks, interruption.

Chains are on the leading axis, always. Between compiled chunks (`advance`) the host acts: progress, checkpoints,
streaming to disk, re-centring, early stop. Nothing of it happens inside a scan.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path as FilePath
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jax.sharding import Mesh

from langevin.core import progress as telling
from langevin.core import sharding
from langevin.core.advance import MAPPED, Collect, advance, chains_of
from langevin.core.arguments import check_counts, check_kinds
from langevin.core.begin import begin_all
from langevin.core.interrupt import Patience
from langevin.core.kernel import Kernel, PerChain, admit
from langevin.core.store import Store
from langevin.core.target import Target
from langevin.core.types import Info, Key, Progress, PyTree, Run, State, position_of

Callback = Callable[[Progress], Progress | None]

LONG = 10_000  # draws up to which a chunk may be longer than the run, for runs to share a program


@runtime_checkable
class Closing(Protocol):
    """A callback that holds something open, such as a progress bar, until the run ends."""

    def close(self) -> None: ...


@runtime_checkable
class Keeping(Protocol):
    """A callback that remembers what decides when to stop: it is stored with the run and restored when that goes on."""

    def remember(self) -> Any: ...
    def restore(self, memory: Any, states: State) -> None: ...


def run(
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
    store: str | FilePath | Store | None = None,
    mesh: Mesh | None = None,
) -> Run:
    """Sample `draws` draws of every chain, after `warmup` draws that are not kept.

    start: positions or states with a leading chain axis. collect: what is stored of a state. store: a folder; the same
    folder resumes, the folder of another run is refused. callbacks: called after every chunk with a `Progress`, which
    they give back, changed or not, or None to stop. mesh: devices for chains and data, made by `langevin.mesh`.

    With a store the returned `kept` and `info` are read lazily from disk. Started again from the returned states with
    the same key, a run goes on as if it had not stopped. An interrupt (Ctrl-C) ends it after the present chunk, and
    the draws so far are kept; a second one ends it at once.
    """
    check_counts(draws=draws, warmup=warmup, thin=thin, chunk=chunk)
    check_kinds(key, callbacks=callbacks, store=store, collect=collect)
    chunk = min(chunk, max(draws, warmup, LONG))  # room is made for a whole chunk
    admit(kernel, target)
    if isinstance(store, (str, FilePath)):
        store = Store(store)
    identity = dict(key=key, kernel=kernel, target=target, start=start, thin=thin, warmup=warmup, collect=collect)
    k_init, k_run = jax.random.split(key)
    done, kernel, target, states = _opened(k_init, kernel, target, start, mesh, store, identity)
    layout = "vmap" if mesh is not None else sharding.layout(states.position, chains_of(states))
    if store is not None:
        # as the run began, wherever it goes on: another layout would differ in the last bit
        layout = store.manifest.setdefault("layout", layout)
    go = partial(advance, length=chunk, thin=thin, collect=collect, layout=layout)
    memory, told, patience = _Memory(done, kernel, target, states), set[int](), Patience()
    try:
        if _restored(callbacks, store, states):
            draws = done - warmup  # a callback has ended this run before
        telling.tell(done, warmup + draws)
        with patience:
            for n, warming in _cuts(done, warmup, warmup + draws, chunk):
                # the key of a draw folds in the count of steps, so the same key serves every chunk
                piece = go(jax.random.clone(k_run), kernel, target, states, n=np.int32(n))
                kept, info = _whole(sharding.host((piece.kept, piece.info)), n)
                done += n
                now = Progress(done - warmup, kernel, target, piece.states, kept, info)
                here = _call(callbacks, now, patience)
                kernel, target, states, stop = here.kernel, here.target, here.states, here.stop
                _name_diverged(info, told, states if states is not piece.states else None)
                what = done, kernel, target, states, None if warming else (kept, info)
                patience.asked |= _written(store or memory, *what, _remembered(callbacks, stop))
                telling.tell(done, warmup + draws)
                if stop or patience.asked or len(told) == chains_of(states):
                    break
    except KeyboardInterrupt:  # asked twice, or by a handler of the user's
        if store is not None or not memory.pieces:
            raise
        patience.asked, (done, kernel, target, states) = True, memory.last
    finally:
        _close((*callbacks, store))
    if patience.asked and jax.tree.leaves(kept_of(states, collect)):
        _say_interrupted(done - warmup)
    if store is not None:
        store.sync()
        if store.structure is None:
            store.structure = jax.tree.structure(kept_of(states, collect))
        return Run(states, store.draws(), store.info(), kernel, target, patience.asked)
    if not memory.pieces and len(told) == chains_of(states):
        raise RuntimeError(f"run: all {len(told)} chains diverged in warm-up; take a smaller step size.")
    return Run(states, *join(memory.pieces), kernel, target, patience.asked)


def _say_interrupted(draws: int) -> None:
    if draws <= 0:
        raise KeyboardInterrupt("run: interrupted before the first draw was kept.")
    warnings.warn(f"run: interrupted; {draws} draws a chain are kept.", stacklevel=3)


class _Memory:
    """What a run without a store keeps: its chunks, and where it stood after the last."""

    def __init__(self, *begin):
        self.pieces: list[tuple[PyTree, Info]] = []
        self.last: tuple = begin

    def append(self, done, kernel, target, states, chunk, memories) -> None:
        if chunk is not None:
            self.pieces.append(chunk)
        self.last = done, kernel, target, states


def kept_of(states: State, collect: Collect) -> PyTree:
    """Shapes of what is collected of all chains."""
    return jax.eval_shape(jax.vmap(collect, (MAPPED,)), states)


def _restored(callbacks: Sequence[Callback], store: Store | None, states: State) -> bool:
    """Give callbacks back what they remembered; whether one of them had ended the run."""
    keeping: list[Any] = [c for c in callbacks if isinstance(c, Keeping)]
    if store is None or not keeping:
        return False
    memories, stopped = store.memories()
    for callback, memory in zip(keeping, memories, strict=False):
        callback.restore(memory, states)
    return stopped


def _remembered(callbacks: Sequence[Callback], stop: bool) -> tuple[list, bool]:
    """What callbacks remember, and whether one of them ends the run."""
    keeping: list[Any] = [c for c in callbacks if isinstance(c, Keeping)]
    return [c.remember() for c in keeping], stop


def _opened(key, kernel, target, start, mesh, store, identity):
    """Draws done, kernel, target and states to begin or go on with, where they belong."""
    if mesh is not None:
        target = sharding.data_over(target, mesh)
    states = start if isinstance(start, State) else begin_all(key, kernel, target, start)
    done = 0
    if store is not None:
        done, kernel, target, found = store.open(identity, kernel, target, states)
        states = sharding.beside(found, states)  # on fewer devices sums of another order would differ in the last bit
    if mesh is not None:
        states, target = sharding.chains_over(states, mesh), sharding.data_over(target, mesh)
    return done, kernel, target, states


def _cuts(done: int, warmup: int, total: int, chunk: int) -> Iterator[tuple[int, bool]]:
    """(draws of a chunk, whether it is warm-up) to the end; no chunk straddles the end of warm-up."""
    while done < total:
        n = min(chunk, (warmup if done < warmup else total) - done)
        yield n, done < warmup
        done += n


def _whole(chunk, n: int):
    """The first n draws; copied when that is not all, so that the rest of the buffer is let go."""
    return jax.tree.map(lambda u: u if u.shape[1] == n else np.array(u[:, :n]), chunk)


def _call(callbacks: Sequence[Callback], progress: Progress, patience: Patience) -> Progress:
    """The progress after all callbacks; None from one of them stops. An interrupt in one keeps the chunk.

    But where a callback remembers: its memory may be of half a chunk, so the chunk is not kept either.
    """
    try:
        for callback in callbacks:
            changed = callback(progress)
            progress = progress._replace(stop=True) if changed is None else changed
    except KeyboardInterrupt:
        if any(isinstance(c, Keeping) for c in callbacks):
            raise
        patience.asked = True
    return progress


def _close(used: Sequence[Any]) -> None:
    for each in used:
        if isinstance(each, Closing):
            each.close()


def _written(store: Store | _Memory, *what) -> bool:
    """Append to the store; whether that was interrupted. What an interrupt cut off is written again."""
    try:
        store.append(*what)
    except KeyboardInterrupt:
        store.append(*what)
        return True
    return False


def join(pieces: list[tuple[PyTree, Info]]) -> tuple[PyTree, Info]:
    """Chunks one after the other along the draw axis."""
    if not pieces:
        raise RuntimeError("run: stopped before the first draw was kept.")
    return jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *pieces)


def _name_diverged(info: Info, told: set[int], changed: State | None) -> None:
    """Warn of chains that have diverged, but for those a callback has put back where their log density is finite."""
    lost = ~np.all(info.ok, axis=1)
    if changed is not None and lost.any():
        lost &= ~np.isfinite(sharding.host(changed.eval.log_density)).reshape(len(lost))
    dead = set(np.flatnonzero(lost).tolist()) - told
    if dead:
        told |= dead
        names = ", ".join(map(str, sorted(dead)))
        rest = "the others go on" if len(told) < len(lost) else "none is left, and the run ends here"
        warnings.warn(
            f"run: chain {names} has diverged (log density not finite) and is left out of averages; {rest}. "
            "A smaller step size is the usual remedy.",
            stacklevel=3,
        )
