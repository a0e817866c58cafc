r"""Differentiable annealing without its memory: a trajectory in integers that the gradient walks back exactly.

Drift and kick of `dais` add to one variable a function of the other. In integers such a step is undone by
subtracting, whatever the function rounds to. θ and w = M^{−½}v are held in fixed point, q(x) = round(2^F x), and

    x = θ + q(½η M^{−½}w);   ŵ = w + q(η M^{−½}g(x));   θ ← x + q(½η M^{−½}ŵ);   w ← γ∘ŵ + q(√(1 − γ²) ε).

The noise is drawn again from its key. Only γ∘ loses information, log₂(1/γ) bits a coordinate and step. With γ = n/d
they go to a buffer word u of each coordinate (`fixed_point`), which is put aside before it can overflow, and a new one
begun (in 32 bits after 173 steps for 9/10, 32 for 1/2). The backward pass holds one state: it undoes a step, then pulls
the cotangents through the same step in real numbers. So what is kept is a word a coordinate and segment: for 9/10 0.19
bits a step, where log₂(1/γ) is 0.15.

A digit taken from the buffer shifts w by up to n 2^{−F}, so the gradient is good to about d 2^{−F}: take small
denominators (1/2, 3/4, 7/8, 9/10, 19/20). The chain runs with n/d, the fraction nearest to γ with d ≤ 100. Where γ is
traced, `Reversible(fraction=(n, d))` says it, and the derivative at n/d is given to γ. γ = 0 is refused: it forgets w.

Two things are checked, and answered with NaN. Positions and w must stay within ±2^{31−F} (±128 for F = 24), else θ_K
and the sum are NaN. And both passes must round g and ε alike. For that each is computed apart from all else, where the
compiler cannot fuse it (`reversible_step`); if the start does not come back bit by bit, the gradient is NaN.

References
----------
Maclaurin, Duvenaud & Adams (2015), Gradient-based hyperparameter optimization through reversible learning, algorithm 3.
Zhang, Hsu, Li, Finn & Grosse (2021), Differentiable annealed importance sampling, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import CustomVJPPrimal, SymbolicZero

from langevin.core import noise, tree
from langevin.core.record import record, static
from langevin.core.types import Key, PyTree, Scalar
from langevin.evidence.annealing.fixed_point import WORD, all_true, in_range, segment, to_fixed, to_fraction, to_real
from langevin.evidence.annealing.reversible_step import Grid, step_back, step_forth


@record
class Reversible:
    """How a reversible trajectory keeps its numbers.

    bits: F, fractional bits; None is 24 of 32, or 44 of 64 in double precision. Fewer reach further and round more.
    fraction: (n, d) with γ = n/d; None finds it, which needs a γ that is not traced.
    """

    bits: int | None = static(default=None)
    fraction: tuple[int, int] | None = static(default=None)


@record
class Kept:
    """What the backward pass needs.

    given: the inputs.
    end: θ_K and w_K in integers.
    aside: the buffer words of every whole segment of steps, and those of the rest.
    ok: whether all numbers stayed in range.
    wanted: for every leaf of the path, and for β, whether it needs a cotangent.
    """

    given: Any
    end: Any
    aside: Any
    ok: Any
    wanted: tuple = static()


def trajectory(
    key: Key, path: Any, annealing: Any, mass: PyTree, theta: PyTree, v: PyTree, how: Reversible | None = None
) -> tuple[PyTree, Scalar]:
    """(θ_K, Σ of the log ratios) from θ and v, as `dais.log_weight` needs them."""
    how = how or Reversible()
    for leaf in jax.tree.leaves(theta):
        if leaf.dtype not in (jnp.float32, jnp.float64):
            raise TypeError(f"reversible: the position holds {leaf.dtype}; it must hold float32 or float64.")
        if how.bits is not None and not 1 <= how.bits <= 8 * leaf.dtype.itemsize - 2:
            raise ValueError(f"reversible: bits is {how.bits}; {leaf.dtype} takes 1 to {8 * leaf.dtype.itemsize - 2}.")
    n, d = how.fraction or to_fraction(annealing.gamma)
    if not 0 < n <= d:
        raise ValueError(
            f"reversible: gamma is {n}/{d}; it must be above 0, for γ = 0 forgets the velocity and nothing can undo it "
            '(take memory="checkpoint"), and at most 1.'
        )
    words, key_of = number_keys(key, annealing.length)
    leaves, structure = jax.tree.flatten(path)
    root = jax.tree.map(lambda m: 1 / jnp.sqrt(m), mass)
    shared, rungs = (leaves, root, annealing.gamma), (annealing.beta, annealing.steps())
    return _walk(Grid(n, d, how.bits, structure, key_of), words, shared, rungs, (theta, tree.mul(root, v)))


def number_keys(key: Key, n: int) -> tuple[jax.Array, Callable[[jax.Array, Any], Key]]:
    """Words, and (words, k) → the key split(key, n)[k]: the words of one key where its generator counts, else of n."""
    impl = jax.random.key_impl(key)
    words, wrap = noise.words(key)
    if impl == noise.HASH:
        return words, lambda words, k: wrap(noise.child(words, k.astype(jnp.uint32)))
    if impl == "threefry2x32" and getattr(jax.config, "jax_threefry_partitionable", True):
        return words, lambda words, k: jax.random.fold_in(wrap(words), k)
    return noise.words(jax.random.split(key, n))[0], lambda words, k: wrap(words[k])


# --- the whole trajectory: whole segments, then the rest -------------------------------------------------------------


def _cut(grid, theta, length):
    """Steps in a segment, the number of whole ones, and steps in the rest: none if that costs few segments more."""
    most = min(length, *(segment(grid.n, grid.d, 8 * u.dtype.itemsize) for u in jax.tree.leaves(theta)))
    size = next((s for s in range(most, most // 2, -1) if length % s == 0), most)
    return size, *divmod(length, size)


def _walk_forth(grid, wanted, *given):
    """What is returned, and what the backward pass needs."""
    start = given[-1]
    size, whole, rest = _cut(grid, start[0], len(given[2][0]))
    # fenced: a constant that only one of the passes knows for one would be folded into g there
    step = partial(step_forth, grid, wanted, lax.optimization_barrier(given))

    def part(carry, begin, length):
        theta, w, *others = carry
        empty = jax.tree.map(lambda u: jnp.zeros(u.shape, WORD[u.dtype.itemsize]), w)
        (theta, w, u, *others), _ = lax.scan(step, (theta, w, empty, *others), begin + jnp.arange(length))
        return (theta, w, *others), u

    peak = jax.tree.map(lambda a, b: jnp.maximum(jnp.abs(a), jnp.abs(b)), *start)
    carry = *to_fixed(grid.bits, start), (jnp.zeros(()), jnp.zeros(())), peak
    carry, aside = lax.scan(lambda carry, i: part(carry, i * size, size), carry, jnp.arange(whole))
    carry, last = part(carry, whole * size, rest) if rest else (carry, None)
    theta, w, total, peak = carry
    ok = in_range(grid.bits, peak)
    out = jax.tree.map(lambda u: jnp.where(ok, u, jnp.nan), (to_real(grid.bits, theta), total[0]))
    return out, Kept(given, (theta, w), (aside, last), ok, tuple(wanted))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _walk(grid, words, shared, rungs, start):
    return _walk_forth(grid, [False] * (len(shared[0]) + 1), words, shared, rungs, start)[0]


def _walk_fwd(grid, *given):
    _, (leaves, *_), (beta, _), _ = given
    smooth = lambda p: p.perturbed and jnp.issubdtype(jnp.result_type(p.value), jnp.inexact)
    values = jax.tree.map(lambda p: p.value, given, is_leaf=lambda p: isinstance(p, CustomVJPPrimal))
    return _walk_forth(grid, [smooth(p) for p in (*leaves, beta)], *values)


def _walk_bwd(grid, kept, ct):
    (_, shared, rungs, start), wanted = kept.given, kept.wanted
    is_zero = lambda c: isinstance(c, SymbolicZero)
    ct_theta, ct_total = jax.tree.map(lambda c: jnp.zeros(c.shape, c.dtype) if is_zero(c) else c, ct, is_leaf=is_zero)
    size, whole, rest = _cut(grid, start[0], len(rungs[0]))
    step = partial(step_back, grid, wanted, lax.optimization_barrier(kept.given), ct_total)

    def part(carry, u, begin, length):
        state, ct, sums, ct_rungs, ok = carry
        begun = (*state, u), ct, sums
        ((*state, u), ct, sums), ct_part = lax.scan(step, begun, begin + jnp.arange(length), reverse=True)
        put = lambda a, b: lax.dynamic_update_slice_in_dim(a, b, begin, 0)
        ok = ok & all_true(jax.tree.map(lambda u: u == 0, u))
        return tuple(state), ct, sums, jax.tree.map(put, ct_rungs, ct_part), ok

    leaves = [u for u, yes in zip(shared[0], wanted, strict=False) if yes]
    sums = tree.zeros_like((leaves, *shared[1:]))
    carry = kept.end, (ct_theta, tree.zeros_like(ct_theta)), sums, tree.zeros_like(rungs), kept.ok
    aside, last = kept.aside
    carry = part(carry, last, whole * size, rest) if rest else carry
    back = lambda carry, x: (part(carry, x[0], x[1] * size, size), None)
    (state, ct, sums, ct_rungs, ok), _ = lax.scan(back, carry, (aside, jnp.arange(whole)), reverse=True)
    ok = ok & all_true(jax.tree.map(lambda a, b: a == b, state, to_fixed(grid.bits, start)))
    ct, (some, *others), ct_rungs = jax.tree.map(lambda u: jnp.where(ok, u, jnp.nan), (ct, sums, ct_rungs))
    leaves = [some.pop(0) if yes else None for yes in wanted[:-1]]
    return None, (leaves, *others), ct_rungs, ct


_walk.defvjp(_walk_fwd, _walk_bwd, symbolic_zeros=True)
