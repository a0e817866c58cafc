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
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from langevin.core import sharding, tree
from langevin.core.advance import MAPPED, Collect, advance, chains_of
from langevin.core.arguments import check_counts, check_kinds
from langevin.core.kernel import Kernel, PerChain, admit
from langevin.core.store import Store
from langevin.core.target import HasStructure, Target
from langevin.core.types import Info, Key, Progress, PyTree, Run, State, position_of

Callback = Callable[[Progress], Progress | None]

LONG = 10_000  # draws up to which a chunk may be longer than the run, for runs to share a program


@runtime_checkable
class Closing(Protocol):
    """A callback that holds something open, such as a progress bar, until the run ends."""

    def close(self) -> None: ...


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
    the same key, a run goes on as if it had not stopped. An interrupt (Ctrl-C) keeps the draws so far.
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
    pieces: list[tuple[PyTree, Info]] = []
    told: set[int] = set()
    try:
        for n, warming in _cuts(done, warmup, warmup + draws, chunk):
            try:
                # the key of a draw folds in the count of steps, so the same key serves every chunk
                piece = go(jax.random.clone(k_run), kernel, target, states, n=np.int32(n))
                kept, info = _whole(sharding.host((piece.kept, piece.info)), n)
            except KeyboardInterrupt:
                _interrupted(done - warmup)
                break
            done += n
            here = _call(callbacks, Progress(done - warmup, kernel, target, piece.states, kept, info))
            kernel, target, states, stop = here.kernel, here.target, here.states, here.stop
            _name_diverged(info, told, states if states is not piece.states else None)
            if store is not None:
                stop |= _written(store, done, kernel, target, states, None if warming else (kept, info))
            elif not warming:
                pieces.append((kept, info))
            if stop or len(told) == chains_of(states):
                break
    finally:
        _close((*callbacks, store))
    if store is None:
        if not pieces and len(told) == chains_of(states):
            raise RuntimeError(f"run: all {len(told)} chains diverged in warm-up; take a smaller step size.")
        return Run(states, *join(pieces), kernel, target)
    store.sync()
    if store.structure is None:
        store.structure = jax.tree.structure(jax.eval_shape(jax.vmap(collect, (MAPPED,)), states))
    return Run(states, store.draws(), store.info(), kernel, target)


def _opened(key, kernel, target, start, mesh, store, identity):
    """Draws done, kernel, target and states to begin or go on with, where they belong."""
    if mesh is not None:
        target = sharding.data_over(target, mesh)
    states = start if isinstance(start, State) else begin_all(key, kernel, target, start)
    done = 0
    if store is not None:
        done, kernel, target, states = store.open(identity, kernel, target, states)
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


def _call(callbacks: Sequence[Callback], progress: Progress) -> Progress:
    """The progress after all callbacks; None from one of them stops. An interrupt stops too; the chunk is kept."""
    try:
        for callback in callbacks:
            changed = callback(progress)
            progress = progress._replace(stop=True) if changed is None else changed
    except KeyboardInterrupt:
        _interrupted(progress.done)
        progress = progress._replace(stop=True)
    return progress


def _close(used: Sequence[Any]) -> None:
    for each in used:
        if isinstance(each, Closing):
            each.close()


def _written(store: Store, done, *what) -> bool:
    """Append to the store; whether that was interrupted. What an interrupt cut off is written again."""
    try:
        store.append(done, *what)
    except KeyboardInterrupt:
        store.append(done, *what)
        _interrupted(len(store.draws()))
        return True
    return False


def begin_all(key: Key, kernel: Kernel | PerChain, target: Target, positions: PyTree) -> State:
    """Initial states of all chains, checked to be finite."""
    leaves = jax.tree.leaves(positions)
    sizes = {np.shape(u)[0] if np.ndim(u) else None for u in leaves}
    if not leaves or None in sizes or len(sizes) != 1:
        shapes = ", ".join(f"{n}: {np.shape(u)}" for n, u in zip(tree.names(positions), leaves, strict=True))
        lists = "; give arrays and no lists of numbers" if None in sizes else ""
        raise ValueError(
            f"run: every leaf of `start` needs the same leading chain axis; got {shapes or 'no leaves'}{lists}."
        )
    if sizes == {0}:
        raise ValueError("run: `start` has no chains; give one position or more along its first axis.")
    _check_positions(target, positions)
    group = kernel.group
    chains = len(leaves[0])
    if chains % group:
        raise ValueError(f"run: {chains} chains cannot be viewed in groups of {group}; start a multiple of it.")
    # an explicit dtype drops JAX's weak types, which would compile the loop twice
    positions = jax.tree.map(lambda u: jnp.asarray(u, jnp.asarray(u).dtype), positions)
    states = _begin(key, kernel, target, positions)
    bad, values = sharding.host((_not_finite(states.eval), states.eval.log_density))
    if bad.any():
        value = float(values[bad][0])
        part = "gradient" if np.isfinite(value) else "log density"
        raise ValueError(
            f"run: the target's {part} is not finite at the start of chain {', '.join(map(str, np.flatnonzero(bad)))} "
            f"(log density {value}); start elsewhere, or look for log(0), a division by 0 or an overflow in the target."
        )
    return states


def _check_positions(target: Any, positions: PyTree) -> None:
    """Refuse positions that are no real numbers or lack the chain axis; warn of chains of single numbers."""
    for name, leaf in zip(tree.names(positions), jax.tree.leaves(positions), strict=True):
        if not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
            raise TypeError(
                f"run: `start`{f' at {name}' if name else ''} has dtype {jnp.result_type(leaf)}; positions are real "
                "numbers: cast them to float32."
            )
    shapes = [np.shape(u) for u in jax.tree.leaves(positions)]
    if isinstance(target, HasStructure):
        wanted = [u.shape for u in jax.tree.leaves(target.structure)]
        if [shape[1:] for shape in shapes] != wanted:
            missing = "; it has no chain axis: add one with start[None]" if shapes == wanted else ""
            raise ValueError(
                f"run: `start` has shapes {shapes}, but a position of this target has {wanted}, which a leading chain "
                f"axis goes before{missing}."
            )
    elif all(len(shape) == 1 for shape in shapes) and shapes[0][0] > 1:
        n = shapes[0][0]
        warnings.warn(
            f"run: every chain of `start` is a single number, and there are {n} chains; if it is one position of {n} "
            "numbers, give it a chain axis with start[None].",
            stacklevel=4,
        )


@jax.jit
def _not_finite(evaluation):
    return jax.vmap(lambda e: ~tree.finite((e.log_density, e.grad)))(evaluation)


@jax.jit
def _begin(key, kernel, target, positions):
    chains, group = jax.tree.leaves(positions)[0].shape[0], kernel.group
    per_chain = isinstance(kernel, PerChain)
    inner = kernel.kernel if per_chain else kernel
    if group > 1:
        positions = jax.tree.map(lambda u: u.reshape(chains // group, group, *u.shape[1:]), positions)
    init = lambda key, kernel, position: kernel.init(key, position, target)
    keys = jax.random.split(key, chains // group)
    states = jax.vmap(init, (0, 0 if per_chain else None, 0))(keys, inner, positions)
    count = states.count.reshape(-1)[0]
    if group > 1:
        states = jax.tree.map(lambda u: u.reshape(chains, *u.shape[2:]), states._replace(count=()))
    return states._replace(count=count)


def join(pieces: list[tuple[PyTree, Info]]) -> tuple[PyTree, Info]:
    """Chunks one after the other along the draw axis."""
    if not pieces:
        raise RuntimeError("run: stopped before the first draw was kept.")
    return jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *pieces)


def _interrupted(draws: int) -> None:
    warnings.warn(f"run: interrupted; {max(draws, 0)} draws a chain are kept.", stacklevel=3)


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
