r"""Differentiable annealing without its memory: a trajectory in integers that the gradient walks back exactly.

Drift and kick of `evidence.dais` add to one variable a function of the other. In integers such a step is undone by
subtracting, whatever the function rounds to. θ and w = M^{−½}v are held in fixed point, q(x) = round(2^F x), and

    x = θ + q(½η M^{−½}w);   ŵ = w + q(η M^{−½}g(x));   θ ← x + q(½η M^{−½}ŵ);   w ← γ∘ŵ + q(√(1 − γ²) ε).

The noise is drawn again from its key. Only γ∘ loses information, log₂(1/γ) bits a coordinate and step. With γ = n/d
they go to a buffer word u of each coordinate, by a bijection of (w, u), all divisions rounded down:

    forward    r = w mod d;  u ← u d + r;  w ← (w − r)/d · n + u mod n;  u ← u div n
    backward   l = w mod n;  u ← u n + l;  w ← (w − l)/n · d + u mod d;  u ← u div d

u grows as (d/n)^s; before it can overflow it is put aside and a new one begun (in 32 bits after 173 steps for 9/10, 32
for 1/2). The backward pass holds one state: it undoes a step, then pulls the cotangents through the same step in real
numbers. So what is kept is a word a coordinate and segment: for 9/10 0.19 bits a step, where log₂(1/γ) is 0.15.

A digit taken from the buffer shifts w by up to n 2^{−F}, so the gradient is good to about d 2^{−F}: take small
denominators (1/2, 3/4, 7/8, 9/10, 19/20). The chain runs with n/d, the fraction nearest to γ with d ≤ 100. Where γ is
traced, `Reversible(fraction=(n, d))` says it, and the derivative at n/d is given to γ. γ = 0 is refused: it forgets w.

Two things are checked, and answered with NaN. Positions and w must stay within ±2^{31−F} (±128 for F = 24), else θ_K
and the sum are NaN. And both passes must round g and ε alike. For that each is computed apart from all else, where the
compiler cannot fuse it (`_fenced`); if the start does not come back bit by bit, the gradient is NaN.

References
----------
Maclaurin, Duvenaud & Adams (2015), Gradient-based hyperparameter optimization through reversible learning, algorithm 3.
Zhang, Hsu, Li, Finn & Grosse (2021), Differentiable annealed importance sampling, algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import CustomVJPPrimal, SymbolicZero

from langevin.core import noise, tree
from langevin.core.record import record, static
from langevin.core.types import Key, PyTree, Scalar
from langevin.evidence.weights import added

DENOMINATOR = 100  # the largest looked for: one more digit of γ costs one digit of the gradient
BITS = {4: 24, 8: 44}  # F by the bytes of a number, as all of these
FLOAT, INT, WORD = ({4: f"{kind}32", 8: f"{kind}64"} for kind in ("float", "int", "uint"))


@record
class Reversible:
    """How a reversible trajectory keeps its numbers.

    bits: F, fractional bits; None is 24 of 32, or 44 of 64 in double precision. Fewer reach further and round more.
    fraction: (n, d) with γ = n/d; None finds it, which needs a γ that is not traced.
    """

    bits: int | None = static(default=None)
    fraction: tuple[int, int] | None = static(default=None)


class Grid(NamedTuple):
    """What is static: γ = n/d, F, the structure of the path, and (words, k) → the key of step k."""

    n: int
    d: int
    bits: int | None
    path: Any
    key: Callable


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
    n, d = how.fraction or rational(annealing.gamma)
    if not 0 < n <= d:
        raise ValueError(
            f"reversible: gamma is {n}/{d}; it must be above 0, for γ = 0 forgets the velocity and nothing can undo it "
            '(take memory="checkpoint"), and at most 1.'
        )
    words, key_of = numbered(key, annealing.length)
    leaves, structure = jax.tree.flatten(path)
    root = jax.tree.map(lambda m: 1 / jnp.sqrt(m), mass)
    shared, rungs = (leaves, root, annealing.gamma), (annealing.beta, annealing.steps())
    return _walk(Grid(n, d, how.bits, structure, key_of), words, shared, rungs, (theta, tree.mul(root, v)))


def rational(gamma: Any) -> tuple[int, int]:
    """(n, d) of the fraction nearest to γ with d ≤ 100."""
    try:
        gamma = float(gamma)
    except jax.errors.ConcretizationTypeError:
        raise ValueError(
            "reversible: gamma is traced here, so its fraction is unknown; say it with Reversible(fraction=(9, 10))."
        ) from None
    nearest = Fraction(gamma).limit_denominator(DENOMINATOR)
    if abs(nearest - gamma) > 0.1 * (1 - gamma):
        raise ValueError(
            f"reversible: no fraction with a denominator up to {DENOMINATOR} is near gamma = {gamma:.6g}; "
            "say one with Reversible(fraction=(999, 1000)), or take a smaller gamma."
        )
    return nearest.numerator, nearest.denominator


def numbered(key: Key, n: int) -> tuple[jax.Array, Callable[[jax.Array, Any], Key]]:
    """Words, and (words, k) → the key split(key, n)[k]: the words of one key where its generator counts, else of n."""
    impl = jax.random.key_impl(key)
    words, wrap = noise.words(key)
    if impl == noise.HASH:
        return words, lambda words, k: wrap(noise.child(words, k.astype(jnp.uint32)))
    if impl == "threefry2x32" and getattr(jax.config, "jax_threefry_partitionable", True):
        return words, lambda words, k: jax.random.fold_in(wrap(words), k)
    return noise.words(jax.random.split(key, n))[0], lambda words, k: wrap(words[k])


# --- the buffer ------------------------------------------------------------------------------------------------


def segment(n: int, d: int, width: int) -> int:
    """For how many steps a word of that many bits holds u, whatever the digits."""
    u = steps = 0
    while u * d + d - 1 < 2**width and steps < 4096:
        u, steps = (u * d + d - 1) // n, steps + 1
    return steps


def shrunk(w: PyTree, u: PyTree, n: int, d: int) -> tuple[PyTree, PyTree]:
    """(w, u) → (about w n/d, u with what was lost). Its inverse is `shrunk` with n and d exchanged."""
    r = jax.tree.map(lambda w: jnp.remainder(w, d), w)
    u = jax.tree.map(lambda u, r: u * d + r.astype(u.dtype), u, r)
    w = jax.tree.map(lambda w, r, u: lax.div(w - r, jnp.asarray(d, w.dtype)) * n + (u % n).astype(w.dtype), w, r, u)
    return w, jax.tree.map(lambda u: u // n, u)


# --- fixed point -----------------------------------------------------------------------------------------------


def _fixed(grid: Grid, x: PyTree) -> PyTree:
    nearest = partial(lax.round, rounding_method=lax.RoundingMethod.TO_NEAREST_EVEN)
    return jax.tree.map(lambda u: nearest(u * _unit(grid, u)).astype(INT[u.dtype.itemsize]), x)


def _real(grid: Grid, x: PyTree) -> PyTree:
    return jax.tree.map(lambda u: u.astype(FLOAT[u.dtype.itemsize]) * (1 / _unit(grid, u)), x)


def _unit(grid, u) -> float:
    return 2.0 ** (grid.bits or BITS[u.dtype.itemsize])


def _within(grid: Grid, peak: PyTree) -> Scalar:
    """Whether all numbers stayed in the range of the integers, less a thousandth; NaN did not."""
    limit = lambda u: (1 - 2.0**-10) * 2.0 ** (8 * u.dtype.itemsize - 1) / _unit(grid, u)
    return _all(jax.tree.map(lambda u: u < limit(u), peak))


def _all(x: PyTree) -> Scalar:
    return jnp.all(jnp.stack([jnp.all(u) for u in jax.tree.leaves(x)]))


# --- one step: both passes call the same parts, for they must round alike -------------------------------------------


def _drift(root, eta, w):
    return jax.tree.map(lambda r, u: ((0.5 * eta * r) * u).astype(u.dtype), root, w)


def _kick(root, eta, g):
    return jax.tree.map(lambda r, u: ((eta * r) * u).astype(u.dtype), root, g)


def _gain(push, w):
    return -tree.dot(push, w) - 0.5 * tree.dot(push, push)


def _fenced(k, fn, *args):
    """fn(*args), rounded alike wherever it is called: the compiler may not fuse it with what is around it.

    XLA for CPU removes its optimisation barriers before it fuses, and how products and sums are contracted then depends
    on who reads them. A branch is a computation of its own; that k ≥ 0 always holds is not known to the compiler.
    """
    if jax.default_backend() != "cpu":
        return lax.optimization_barrier(fn(*lax.optimization_barrier(args)))
    made = jax.eval_shape(fn, *args)
    never = lambda *_: jax.tree.map(lambda u: jnp.zeros(u.shape, u.dtype), made)
    return lax.cond(k >= 0, fn, never, *args)


def _noise(grid, words, k, w):
    like = jax.tree.map(lambda u: jax.ShapeDtypeStruct(u.shape, FLOAT[u.dtype.itemsize]), w)
    return _fenced(k, lambda words, k: noise.like(grid.key(words, k), like), words, k)


def _spare(grid):
    return math.sqrt(1 - (grid.n / grid.d) ** 2)


def _slope(grid, k, leaves, beta, x):
    """g(x) = ∇log f_β(x)."""
    return _fenced(k, lambda *some: jax.grad(_density(grid, *some[:2]))(some[2]), leaves, beta, x)


def _pulled(grid, leaves, wanted, beta, x, ct):
    """The cotangent of g(x) pulled back to the wanted of (leaves of the path, β) and to x."""
    free = [*leaves, beta]

    def gradient(some, x):
        some = iter(some)
        *leaves, beta = [next(some) if yes else u for u, yes in zip(free, wanted, strict=True)]
        return jax.grad(_density(grid, leaves, beta))(x)

    some = [u for u, yes in zip(free, wanted, strict=True) if yes]
    return jax.vjp(gradient, some, x)[1](ct)


def _density(grid, leaves, beta):
    return jax.tree.unflatten(grid.path, leaves).at(beta).log_density


def _forth(grid, wanted, given, carry, k):
    """One step in integers; the log ratio is summed, and the largest numbers are kept."""
    theta, w, u, total, peak = carry
    words, (leaves, root, _), (beta, eta) = given[0], given[1], jax.tree.map(lambda a: a[k], given[2])

    def add(a, change, peak):
        largest = lambda p, r, c: jnp.maximum(p, jnp.maximum(jnp.abs(c), jnp.abs(r + c)))
        return tree.add(a, _fixed(grid, change)), jax.tree.map(largest, peak, _real(grid, a), change)

    x, peak = add(theta, _drift(root, eta, _real(grid, w)), peak)
    push = _kick(root, eta, _slope(grid, k, leaves, beta, _real(grid, x)))
    total = added(total, _gain(push, _real(grid, w)))
    w, peak = add(w, push, peak)
    theta, peak = add(x, _drift(root, eta, _real(grid, w)), peak)
    w, u = shrunk(w, u, grid.n, grid.d)
    w, peak = add(w, tree.scale(_spare(grid), _noise(grid, words, k, w)), peak)
    return (theta, w, u, total, peak), None


def _back(grid, wanted, given, ct_total, carry, k):
    """That step undone, and the cotangents of θ, w and (summed up) of what all steps share pulled through it."""
    (theta, w, u), (ct_theta, ct_w), sums = carry
    words, (leaves, root, gamma), (beta, eta) = given[0], given[1], jax.tree.map(lambda a: a[k], given[2])
    epsilon = _noise(grid, words, k, w)
    less = lambda a, change: tree.sub(a, _fixed(grid, change))
    w, u = shrunk(less(w, tree.scale(_spare(grid), epsilon)), u, grid.d, grid.n)
    x = less(theta, _drift(root, eta, _real(grid, w)))
    g = _slope(grid, k, leaves, beta, _real(grid, x))
    w = less(w, _kick(root, eta, g))
    theta = less(x, _drift(root, eta, _real(grid, w)))

    def first(root, eta, theta, w):
        return tree.add(theta, _drift(root, eta, w))

    def second(root, gamma, eta, x, w, g):
        push = _kick(root, eta, g)
        moved = tree.add(w, push)
        new = tree.axpy(gamma, moved, tree.scale(jnp.sqrt(1 - gamma**2), epsilon))
        return tree.add(x, _drift(root, eta, moved)), new, _gain(push, w)

    gamma, real_w = jnp.asarray(grid.n / grid.d, gamma.dtype), _real(grid, w)
    _, pull_first = jax.vjp(first, root, eta, _real(grid, theta), real_w)
    _, pull_second = jax.vjp(second, root, gamma, eta, _real(grid, x), real_w, g)
    root_2, gamma_2, eta_2, x_2, w_2, ct_g = pull_second((ct_theta, ct_w, ct_total))
    some, x_g = _pulled(grid, leaves, wanted, beta, _real(grid, x), ct_g)
    root_1, eta_1, ct_theta, w_1 = pull_first(tree.add(x_2, x_g))
    ct_beta = some.pop() if wanted[-1] else jnp.zeros_like(beta)
    sums = tree.add(sums, (some, tree.add(root_1, root_2), gamma_2))
    return ((theta, w, u), (ct_theta, tree.add(w_1, w_2)), sums), (ct_beta, eta_1 + eta_2)


# --- the whole trajectory: whole segments, then the rest -------------------------------------------------------------


def _cut(grid, theta, length):
    """Steps in a segment, the number of whole ones, and steps in the rest: none if that costs few segments more."""
    most = min(length, *(segment(grid.n, grid.d, 8 * u.dtype.itemsize) for u in jax.tree.leaves(theta)))
    size = next((s for s in range(most, most // 2, -1) if length % s == 0), most)
    return size, *divmod(length, size)


def _walked(grid, wanted, *given):
    """What is returned, and what the backward pass needs."""
    start = given[-1]
    size, whole, rest = _cut(grid, start[0], len(given[2][0]))
    # fenced: a constant that only one of the passes knows for one would be folded into g there
    step = partial(_forth, grid, wanted, lax.optimization_barrier(given))

    def part(carry, begin, length):
        theta, w, *others = carry
        empty = jax.tree.map(lambda u: jnp.zeros(u.shape, WORD[u.dtype.itemsize]), w)
        (theta, w, u, *others), _ = lax.scan(step, (theta, w, empty, *others), begin + jnp.arange(length))
        return (theta, w, *others), u

    peak = jax.tree.map(lambda a, b: jnp.maximum(jnp.abs(a), jnp.abs(b)), *start)
    carry = *_fixed(grid, start), (jnp.zeros(()), jnp.zeros(())), peak
    carry, aside = lax.scan(lambda carry, i: part(carry, i * size, size), carry, jnp.arange(whole))
    carry, last = part(carry, whole * size, rest) if rest else (carry, None)
    theta, w, total, peak = carry
    ok = _within(grid, peak)
    out = jax.tree.map(lambda u: jnp.where(ok, u, jnp.nan), (_real(grid, theta), total[0]))
    return out, Kept(given, (theta, w), (aside, last), ok, tuple(wanted))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _walk(grid, words, shared, rungs, start):
    return _walked(grid, [False] * (len(shared[0]) + 1), words, shared, rungs, start)[0]


def _walk_forward(grid, *given):
    _, (leaves, *_), (beta, _), _ = given
    smooth = lambda p: p.perturbed and jnp.issubdtype(jnp.result_type(p.value), jnp.inexact)
    values = jax.tree.map(lambda p: p.value, given, is_leaf=lambda p: isinstance(p, CustomVJPPrimal))
    return _walked(grid, [smooth(p) for p in (*leaves, beta)], *values)


def _walk_backward(grid, kept, ct):
    (_, shared, rungs, start), wanted = kept.given, kept.wanted
    is_zero = lambda c: isinstance(c, SymbolicZero)
    ct_theta, ct_total = jax.tree.map(lambda c: jnp.zeros(c.shape, c.dtype) if is_zero(c) else c, ct, is_leaf=is_zero)
    size, whole, rest = _cut(grid, start[0], len(rungs[0]))
    step = partial(_back, grid, wanted, lax.optimization_barrier(kept.given), ct_total)

    def part(carry, u, begin, length):
        state, ct, sums, ct_rungs, ok = carry
        begun = (*state, u), ct, sums
        ((*state, u), ct, sums), ct_part = lax.scan(step, begun, begin + jnp.arange(length), reverse=True)
        put = lambda a, b: lax.dynamic_update_slice_in_dim(a, b, begin, 0)
        ok = ok & _all(jax.tree.map(lambda u: u == 0, u))
        return tuple(state), ct, sums, jax.tree.map(put, ct_rungs, ct_part), ok

    leaves = [u for u, yes in zip(shared[0], wanted, strict=False) if yes]
    sums = tree.zeros_like((leaves, *shared[1:]))
    carry = kept.end, (ct_theta, tree.zeros_like(ct_theta)), sums, tree.zeros_like(rungs), kept.ok
    aside, last = kept.aside
    carry = part(carry, last, whole * size, rest) if rest else carry
    back = lambda carry, x: (part(carry, x[0], x[1] * size, size), None)
    (state, ct, sums, ct_rungs, ok), _ = lax.scan(back, carry, (aside, jnp.arange(whole)), reverse=True)
    ok = ok & _all(jax.tree.map(lambda a, b: a == b, state, _fixed(grid, start)))
    ct, (some, *others), ct_rungs = jax.tree.map(lambda u: jnp.where(ok, u, jnp.nan), (ct, sums, ct_rungs))
    leaves = [some.pop(0) if yes else None for yes in wanted[:-1]]
    return None, (leaves, *others), ct_rungs, ct


_walk.defvjp(_walk_forward, _walk_backward, symbolic_zeros=True)
