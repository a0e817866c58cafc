"""The only sampling loop: compiled chunks of steps, chains on the leading axis, host visits between chunks.

`advance` is the compiled core, pure and (with n=None) differentiable; `run` is the host's half: start, chunks,
store, visits, interruption. The key of a draw is split(fold_in(key, steps taken before it))[chain], so results do
not depend on how the draws are cut into chunks, and a run continues from its states and its key alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path as FilePath
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh

from langevin.core import noise, place, tree
from langevin.core.kernel import Kernel, PerChain, reduced, refresh
from langevin.core.pack import Packing
from langevin.core.record import as_record
from langevin.core.store import Store
from langevin.core.target import Target
from langevin.core.types import Info, Key, PyTree, Run, State, position_of

Visit = Callable[[int, Any, Any, State, Run], tuple[Any, Any, State] | None]
Keep = Callable[[State], PyTree]

MAPPED = State(0, 0, 0, 0, 0, None)  # `count` is one number for all chains
UNROLL = 4  # steps in one turn of the loop on an accelerator, which shares the launches of counters and outputs
BLOCK = 64  # draws between two looks at a traced loop bound on an accelerator, where a look costs 10-20 µs


def advance(
    key: Key,
    kernel: Kernel | PerChain,
    target: Target,
    states: State,
    *,
    length: int,
    thin: int = 1,
    keep: Keep = position_of,
    over: PyTree = None,
    n: Any = None,
    layout: str | None = None,
) -> Run:
    """`length` draws of `thin` steps each, or the first n of them (a traced number: no new compilation).

    With `over` (a tree with leading axis length·thin) step k uses target.at(over[k]): the state is refreshed to it and
    the change of log density at that point is added to Info.log_weight, so annealing weights are sums of log_weight.
    """
    keep = as_record(keep)
    if layout is None:
        layout = place.layout(states.position, _chains(states))
    accelerated = jax.default_backend() != "cpu"
    return _advance(
        key,
        kernel,
        target,
        states,
        keep,
        over,
        n,
        length=length,
        thin=thin,
        layout=layout,
        accelerated=accelerated,
    )


@partial(jax.jit, static_argnames=("length", "thin", "layout", "accelerated"))
def _advance(key, kernel, target, states, keep, over, n, *, length, thin, layout, accelerated):
    chains, group = _chains(states), getattr(kernel, "group", 1)
    rows = chains // group
    per_chain = isinstance(kernel, PerChain)
    inner = kernel.kernel if per_chain else kernel
    over = None if over is None else jax.tree.map(lambda u: u.reshape(length, thin, *u.shape[1:]), over)
    fold = lambda u: u.reshape(rows, group, *u.shape[1:])
    if group > 1:
        states = State(*(jax.tree.map(fold, part) for part in states[:-1]), count=states.count)

    # split once a chunk, outside the loop; a draw's key depends on the steps before it, not on the chunk
    counts = states.count + thin * _stride(inner) * jnp.arange(length, dtype=jnp.int32)
    keys = jax.vmap(lambda k: jax.random.split(k, rows))(jax.vmap(partial(jax.random.fold_in, key))(counts))
    keys, wrap = noise.words(keys)

    def chain(keys, kernel, state):
        draw = lambda state, x: _draw(kernel, target, keep, thin, state, (wrap(x[0]), x[1]))
        if n is None:
            return lax.scan(draw, state, (keys, over))

        def apart(state, x):
            # `count` as an array of one is not packed: it is one number for all chains, their words are not
            state, out = draw(state._replace(count=state.count[0]), x)
            return state._replace(count=state.count[None]), out

        begin = state._replace(count=state.count[None])
        state, out = _first(n, apart, begin, (keys, over), length, BLOCK if accelerated else 1)
        return state._replace(count=state.count[0]), out

    if rows == 1:
        # plain matrix products in place of batches of one
        first, again = partial(jax.tree.map, lambda u: u[0]), partial(jax.tree.map, lambda u: u[None])
        state = State(*map(first, states[:-1]), count=states.count)
        state, (kept, info) = chain(keys[:, 0], first(inner) if per_chain else inner, state)
        states, kept, info = State(*map(again, state[:-1]), count=state.count), again(kept), again(info)
    elif layout == "vmap":
        axes = (1, 0 if per_chain else None, MAPPED)
        states, (kept, info) = jax.vmap(chain, axes, (MAPPED, 0))(keys, inner, states)
    else:
        count = states.count
        parts = (jnp.swapaxes(keys, 0, 1), inner if per_chain else (), states._replace(count=()))
        alone = lambda part: chain(part[0], part[1] if per_chain else inner, part[2]._replace(count=count))
        states, (kept, info) = lax.map(alone, parts)
        states = states._replace(count=states.count[0])
    if group > 1:
        unfold = lambda u: u.reshape(chains, *u.shape[2:])
        states = State(*(jax.tree.map(unfold, part) for part in states[:-1]), count=states.count)
        kept, info = jax.tree.map(lambda u: jnp.moveaxis(u, 2, 1).reshape(chains, length, *u.shape[3:]), (kept, info))
    return Run(states, kept, info)


def _draw(kernel, target, keep, thin, state, x):
    """One draw of one chain: `thin` steps, then what is kept of the state and the reduced Info."""
    key, over = x

    def step(state, x):
        key, beta = x
        if beta is None:
            return kernel.step(key, state, target)
        # annealing: move to the next target of the path, collect the change of log density, then step on it
        k_refresh, k_step = jax.random.split(key)
        there = target.at(beta)
        new = refresh(k_refresh, state, there)
        gain = new.eval.log_density - state.eval.log_density
        state, info = kernel.step(k_step, new, there)
        return state, info._replace(log_weight=info.log_weight + gain)

    if thin == 1:
        beta = None if over is None else jax.tree.map(lambda u: u[0], over)
        state, info = step(state, (key, beta))
    else:
        words, wrap = noise.words(jax.random.split(key, thin))
        state, infos = lax.scan(lambda s, x: step(s, (wrap(x[0]), x[1])), state, (words, over))
        info = reduced(infos)
        if over is not None:
            info = info._replace(log_weight=jnp.sum(infos.log_weight, axis=0))
    return state, (keep(state), info)


def _first(n, body, carry, xs, length, block):
    """The first n ≤ length iterations of a scan, n traced; outputs beyond n are zeros.

    Scalars, carried or put out, travel as words of one array. On an accelerator the bound is looked at once a block of
    iterations, then once for each of the rest.
    """
    at = lambda i: jax.tree.map(lambda u: lax.dynamic_index_in_dim(u, i, keepdims=False), xs)
    shapes = jax.eval_shape(lambda: body(carry, at(0))[1])
    inside, outside = Packing(carry), Packing(shapes)

    def slim(carry, x):
        carry, y = body(inside.unpack(carry), x)
        return inside.pack(carry), outside.pack(y)

    def one(i, both):
        carry, out = both
        carry, y = slim(carry, at(i))
        return carry, jax.tree.map(lambda b, v: lax.dynamic_update_index_in_dim(b, v, i, 0), out, y)

    def many(i, both):
        carry, out = both
        part = jax.tree.map(lambda u: lax.dynamic_slice_in_dim(u, i * block, block), xs)
        carry, y = lax.scan(slim, carry, part, unroll=UNROLL)
        return carry, jax.tree.map(lambda b, v: lax.dynamic_update_slice_in_dim(b, v, i * block, 0), out, y)

    packed = jax.eval_shape(outside.pack, shapes)
    both = inside.pack(carry), jax.tree.map(lambda s: jnp.zeros((length, *s.shape), s.dtype), packed)
    whole = 0
    if block > 1 and length >= block:
        whole = n // block
        both = lax.fori_loop(0, whole, many, both)
    carry, out = lax.fori_loop(whole * block, n, one, both)
    return inside.unpack(carry), outside.unpack(out)


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
    keep: Keep = position_of,
    visits: Sequence[Visit] = (),
    store: str | FilePath | Store | None = None,
    mesh: Mesh | None = None,
) -> Run:
    """Sample `draws` draws of every chain, after `warmup` draws that are not kept.

    start: positions or states with a leading chain axis. store: a folder; the same folder resumes, the folder of
    another run is refused. Visits are called after every chunk and may change kernel, target and states, or stop.
    With a store the returned `kept` and `info` are read lazily from disk. Started again from the returned states with
    the same key, a run goes on as if it had not stopped. An interrupt (Ctrl-C) keeps the draws so far.
    """
    _check(draws=draws, thin=thin, chunk=chunk)
    _check(0, warmup=warmup)
    if isinstance(store, (str, FilePath)):
        store = Store(store)
    identity = dict(key=key, kernel=kernel, target=target, start=start, thin=thin, warmup=warmup, keep=keep)
    k_init, k_run = jax.random.split(key)
    done, kernel, target, states = _opened(k_init, kernel, target, start, mesh, store, identity)
    layout = "vmap" if mesh is not None else place.layout(states.position, _chains(states))
    if store is not None:
        # as the run began, wherever it goes on: another layout would differ in the last bit
        layout = store.manifest.setdefault("layout", layout)
    go = partial(advance, length=chunk, thin=thin, keep=keep, layout=layout)
    pieces: list[tuple[PyTree, Info]] = []
    told: set[int] = set()
    try:
        for n, warming in _cuts(done, warmup, warmup + draws, chunk):
            try:
                # the key of a draw folds in the count of steps, so the same key serves every chunk
                piece = go(jax.random.clone(k_run), kernel, target, states, n=np.int32(n))
                kept, info = _whole(place.host((piece.kept, piece.info)), n)
            except KeyboardInterrupt:
                _interrupted(done - warmup)
                break
            done += n
            _name_diverged(info, told)
            here = Run(piece.states, kept, info)
            kernel, target, states, stop = _visited(visits, done - warmup, kernel, target, here)
            if store is not None:
                stop |= _written(store, done, kernel, target, states, None if warming else (kept, info))
            elif not warming:
                pieces.append((kept, info))
            if stop or len(told) == _chains(states):
                break
    finally:
        for visit in visits:
            getattr(visit, "close", lambda: None)()
    if store is None:
        return Run(states, *join(pieces))
    store.settle()
    if store.structure is None:
        store.structure = jax.tree.structure(jax.eval_shape(jax.vmap(keep, (MAPPED,)), states))
    return Run(states, store.draws(), store.info())


def _opened(key, kernel, target, start, mesh, store, identity):
    """Draws done, kernel, target and states to begin or go on with, where they belong."""
    if mesh is not None:
        target = place.data_over(target, mesh)
    states = start if isinstance(start, State) else begin_all(key, kernel, target, start)
    done = 0
    if store is not None:
        done, kernel, target, states = store.open(identity, kernel, target, states)
    if mesh is not None:
        states, target = place.chains_over(states, mesh), place.data_over(target, mesh)
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


def _visited(visits, done, kernel, target, here: Run):
    """Kernel, target and states after all visits, and whether to stop. An interrupt stops; the chunk is kept."""
    states, stop = here.states, False
    try:
        for visit in visits:
            changed = visit(done, kernel, target, states, here)
            if changed is None:
                stop = True
            else:
                kernel, target, states = changed
    except KeyboardInterrupt:
        _interrupted(done)
        stop = True
    return kernel, target, states, stop


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
        raise ValueError(f"run: every leaf of `start` needs the same leading chain axis; got {shapes or 'no leaves'}.")
    group = getattr(kernel, "group", 1)
    chains = len(leaves[0])
    if chains % group:
        raise ValueError(f"run: {chains} chains cannot be viewed in groups of {group}; start a multiple of it.")
    # an explicit dtype drops JAX's weak types, which would compile the loop twice
    positions = jax.tree.map(lambda u: jnp.asarray(u, jnp.asarray(u).dtype), positions)
    states = _begin(key, kernel, target, positions)
    bad, values = place.host((_not_finite(states.eval), states.eval.log_density))
    if bad.any():
        value = float(values[bad][0])
        part = "gradient" if np.isfinite(value) else "log density"
        raise ValueError(
            f"run: the target's {part} is not finite at the start of chain {', '.join(map(str, np.flatnonzero(bad)))} "
            f"(log density {value}); start elsewhere, or look for log(0), a division by 0 or an overflow in the target."
        )
    return states


@jax.jit
def _not_finite(evaluation):
    return jax.vmap(lambda e: ~tree.finite((e.log_density, e.grad)))(evaluation)


@jax.jit
def _begin(key, kernel, target, positions):
    chains, group = jax.tree.leaves(positions)[0].shape[0], getattr(kernel, "group", 1)
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


def _chains(states: State) -> int:
    return jax.tree.leaves(states.position)[0].shape[0]


def _stride(kernel) -> int:
    """By how much one step advances `count`: 1, unless a kernel made of kernels takes several steps as one."""
    inner = getattr(kernel, "kernel", None)
    return getattr(kernel, "stride", 1) * (1 if inner is None else _stride(inner))


def _check(least: int = 1, **counts: int) -> None:
    for name, value in counts.items():
        if not isinstance(value, (int, np.integer)):
            raise TypeError(f"run: {name} is {value!r}; it must be a whole number.")
        if value < least:
            raise ValueError(f"run: {name} is {value}; it must be {least} or more.")


def _interrupted(draws: int) -> None:
    warnings.warn(f"run: interrupted; {max(draws, 0)} draws a chain are kept.", stacklevel=3)


def _name_diverged(info: Info, told: set[int]) -> None:
    dead = set(np.flatnonzero(~np.all(info.ok, axis=1)).tolist()) - told
    if dead:
        told |= dead
        names = ", ".join(map(str, sorted(dead)))
        warnings.warn(
            f"run: chain {names} has diverged (log density not finite) and is left out of averages; the others go on. "
            "A smaller step size is the usual remedy.",
            stacklevel=3,
        )
