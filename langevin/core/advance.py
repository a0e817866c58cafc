"""The compiled half of the loop: one chunk of draws of all chains, pure and (with n=None) differentiable.

The key of a draw is split(fold_in(key, steps taken before it))[chain], so results do not depend on how the draws
are cut into chunks, and a run continues from its states and its key alone. No host is called inside.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.extend as jex
import jax.numpy as jnp
from jax import lax

from langevin.core import noise, sharding, tree
from langevin.core.kernel import Kernel, PerChain, combine
from langevin.core.pack import Packing
from langevin.core.record import as_record
from langevin.core.target import Target
from langevin.core.types import Key, PyTree, Run, State, map_chains, position_of

Collect = Callable[[State], PyTree]

MAPPED: Any = State(0, 0, 0, 0, 0, None)  # type: ignore[arg-type]  # `count` is one number for all chains
UNROLL = 8  # steps in one turn of the loop on an accelerator, which share the launches of counters and outputs
BODY = 4000  # operations in one turn of the loop, at most: a residual net of 8 steps takes minutes to compile
PROGRAMS = (jex.core.ClosedJaxpr, jex.core.Jaxpr)
SMALL = 1 << 20  # numbers in all positions below which launches, not arithmetic, set the pace there
BLOCK = 64  # draws between two looks at a traced loop bound on an accelerator, where a look costs 10-20 µs


def advance(
    key: Key,
    kernel: Kernel | PerChain,
    target: Target,
    states: State,
    *,
    length: int,
    thin: int = 1,
    collect: Collect = position_of,
    n: Any = None,
    layout: str | None = None,
) -> Run:
    """`length` draws of `thin` steps each, or the first n of them (a traced number: no new compilation)."""
    collect = as_record(collect)
    if layout is None:
        layout = sharding.layout(states.position, chains_of(states))
    accelerated = jax.default_backend() != "cpu"
    states = sharding.beside(states, states)
    if isinstance(kernel, PerChain):
        kernel = sharding.beside(kernel, states)
    states, kept, info = _advance(
        key,
        kernel,
        target,
        states,
        collect,
        n,
        length=length,
        thin=thin,
        layout=layout,
        accelerated=accelerated,
    )
    return Run(states, kept, info, kernel, target)


@partial(jax.jit, static_argnames=("length", "thin", "layout", "accelerated"))
def _advance(key, kernel, target, states, collect, n, *, length, thin, layout, accelerated):
    chains, group = chains_of(states), kernel.group
    rows, small = chains // group, tree.size(states.position) <= SMALL
    per_chain = isinstance(kernel, PerChain)
    inner = kernel.kernel if per_chain else kernel
    fold = lambda u: u.reshape(rows, group, *u.shape[1:])
    if group > 1:
        states = map_chains(partial(jax.tree.map, fold), states)

    # split once a chunk, outside the loop; a draw's key depends on the steps before it, not on the chunk
    counts = states.count + thin * inner.stride * jnp.arange(length, dtype=jnp.int32)
    keys = jax.vmap(lambda k: jax.random.split(k, rows))(jax.vmap(partial(jax.random.fold_in, key))(counts))
    keys, wrap = noise.words(keys)

    def chain(keys, kernel, state):
        draw = lambda state, word: _draw(kernel, target, collect, thin, state, wrap(word))
        if n is None:
            return lax.scan(draw, state, keys)

        def apart(state, x):
            # `count` as an array of one is not packed: it is one number for all chains, their words are not
            state, out = draw(state._replace(count=state.count[0]), x)
            return state._replace(count=state.count[None]), out

        begin = state._replace(count=state.count[None])
        pace = (BLOCK, UNROLL if small else 1) if accelerated else (1, 1)
        state, out = _first(n, apart, begin, keys, length, *pace)
        return state._replace(count=state.count[0]), out

    if rows == 1:
        # plain matrix products in place of batches of one
        first, again = partial(jax.tree.map, lambda u: u[0]), partial(jax.tree.map, lambda u: u[None])
        state = map_chains(first, states)
        state, (kept, info) = chain(keys[:, 0], first(inner) if per_chain else inner, state)
        states, kept, info = map_chains(again, state), again(kept), again(info)
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
        states = map_chains(partial(jax.tree.map, unfold), states)
        kept, info = jax.tree.map(lambda u: jnp.moveaxis(u, 2, 1).reshape(chains, length, *u.shape[3:]), (kept, info))
    return states, kept, info


def _draw(kernel, target, collect, thin, state, key):
    """One draw of one chain: `thin` steps, then what is collected of the state and the reduced Info."""
    if thin == 1:
        state, info = _step(kernel, target, state, key)
        return state, (collect(state), info)
    words, wrap = noise.words(jax.random.split(key, thin))
    step = lambda state, word: _step(kernel, target, state, wrap(word))
    shape = jax.eval_shape(lambda: step(state, words[0])[1])
    nothing = jax.tree.map(lambda u: jnp.zeros(u.shape, u.dtype), shape)._replace(ok=jnp.ones(shape.ok.shape, bool))

    def more(carry, word):
        # Info is summed up on the way: stacking it would write seven arrays a step
        state, total = carry
        state, info = step(state, word)
        return (state, combine(total, info)), None

    (state, info), _ = lax.scan(more, (state, nothing), words)
    return state, (collect(state), info._replace(acceptance=info.acceptance / thin))


def _step(kernel, target, state, key):
    """One step, in the types the state has: with 64-bit numbers enabled a Python number makes a float32 a float64."""
    new, info = kernel.step(key, state, target)
    same = lambda u, v: u if u.dtype == v.dtype else u.astype(v.dtype)
    return jax.tree.map(same, jax.tree.map(jnp.asarray, new), jax.tree.map(jnp.asarray, state)), info


def _first(n, body, carry, xs, length, block=1, unroll=1):
    """The first n ≤ length iterations of a scan, n traced; outputs beyond n are zeros.

    Scalars, carried or put out, travel as words of one array. On an accelerator the bound is looked at once a block
    of iterations, then once for each of the rest.
    """
    at = lambda i: jax.tree.map(lambda u: lax.dynamic_index_in_dim(u, i, keepdims=False), xs)
    program, shapes = jax.make_jaxpr(lambda: body(carry, at(0))[1], return_shape=True)()
    unroll = max(1, min(unroll, BODY // _operations(program.jaxpr)))
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
        carry, y = lax.scan(slim, carry, part, unroll=unroll)
        return carry, jax.tree.map(lambda b, v: lax.dynamic_update_slice_in_dim(b, v, i * block, 0), out, y)

    packed = jax.eval_shape(outside.pack, shapes)
    both = inside.pack(carry), jax.tree.map(lambda s: jnp.zeros((length, *s.shape), s.dtype), packed)
    whole = 0
    if block > 1 and length >= block:
        whole = n // block
        both = lax.fori_loop(0, whole, many, both)
    carry, out = lax.fori_loop(whole * block, n, one, both)
    return inside.unpack(carry), outside.unpack(out)


def _operations(program: jex.core.Jaxpr) -> int:
    """How many a program has, those of the programs inside it among them."""
    n = 1
    for equation in program.eqns:
        n += 1
        for part in jax.tree.leaves(tuple(equation.params.values()), is_leaf=lambda u: isinstance(u, PROGRAMS)):
            if isinstance(part, PROGRAMS):
                n += _operations(part.jaxpr if isinstance(part, jex.core.ClosedJaxpr) else part)
    return n


def chains_of(states: State) -> int:
    return jax.tree.leaves(states.position)[0].shape[0]
