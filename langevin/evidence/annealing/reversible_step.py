r"""One step of the reversible trajectory, forth in integers, and back with its cotangents.

Both passes must round alike, so both call the same parts. Gradients and noise are computed apart from all else: XLA for
CPU removes optimisation barriers before it fuses, and how products and sums are contracted into fused multiply-adds
depends on what reads them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from langevin.core import noise, tree
from langevin.evidence.annealing.fixed_point import FLOAT, shrink, to_fixed, to_real
from langevin.evidence.weights import add


class Grid(NamedTuple):
    """What is static: γ = n/d, F, the structure of the path, and (words, k) → the key of step k."""

    n: int
    d: int
    bits: int | None
    path: Any
    key: Callable


def _drift(root, eta, w):
    return jax.tree.map(lambda r, u: ((0.5 * eta * r) * u).astype(u.dtype), root, w)


def _kick(root, eta, g):
    return jax.tree.map(lambda r, u: ((eta * r) * u).astype(u.dtype), root, g)


def _gain(push, w):
    return -tree.dot(push, w) - 0.5 * tree.dot(push, push)


def _fence(k, fn, *args):
    """fn(*args), rounded alike wherever it is called: the compiler may not fuse it with what is around it.

    A branch is a computation of its own; that k ≥ 0 always holds is not known to the compiler.
    """
    if jax.default_backend() != "cpu":
        return lax.optimization_barrier(fn(*lax.optimization_barrier(args)))
    made = jax.eval_shape(fn, *args)
    never = lambda *_: jax.tree.map(lambda u: jnp.zeros(u.shape, u.dtype), made)
    return lax.cond(k >= 0, fn, never, *args)


def _noise(grid, words, k, w):
    like = jax.tree.map(lambda u: jax.ShapeDtypeStruct(u.shape, FLOAT[u.dtype.itemsize]), w)
    return _fence(k, lambda words, k: noise.like(grid.key(words, k), like), words, k)


def _spare(grid):
    return math.sqrt(1 - (grid.n / grid.d) ** 2)


def _slope(grid, k, leaves, beta, x):
    """g(x) = ∇log f_β(x)."""
    return _fence(k, lambda *some: jax.grad(_density(grid, *some[:2]))(some[2]), leaves, beta, x)


def _pull_back(grid, leaves, wanted, beta, x, ct):
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


def step_forth(grid, wanted, given, carry, k):
    """One step in integers; the log ratio is summed, and the largest numbers are kept."""
    theta, w, u, total, peak = carry
    words, (leaves, root, _), (beta, eta) = given[0], given[1], jax.tree.map(lambda a: a[k], given[2])

    def shift(a, change, peak):
        largest = lambda p, r, c: jnp.maximum(p, jnp.maximum(jnp.abs(c), jnp.abs(r + c)))
        return tree.add(a, to_fixed(grid.bits, change)), jax.tree.map(largest, peak, to_real(grid.bits, a), change)

    x, peak = shift(theta, _drift(root, eta, to_real(grid.bits, w)), peak)
    push = _kick(root, eta, _slope(grid, k, leaves, beta, to_real(grid.bits, x)))
    total = add(total, _gain(push, to_real(grid.bits, w)))
    w, peak = shift(w, push, peak)
    theta, peak = shift(x, _drift(root, eta, to_real(grid.bits, w)), peak)
    w, u = shrink(w, u, grid.n, grid.d)
    w, peak = shift(w, tree.scale(_spare(grid), _noise(grid, words, k, w)), peak)
    return (theta, w, u, total, peak), None


def step_back(grid, wanted, given, ct_total, carry, k):
    """That step undone, and the cotangents of θ, w and (summed up) of what all steps share pulled through it."""
    (theta, w, u), (ct_theta, ct_w), sums = carry
    words, (leaves, root, gamma), (beta, eta) = given[0], given[1], jax.tree.map(lambda a: a[k], given[2])
    epsilon = _noise(grid, words, k, w)
    less = lambda a, change: tree.sub(a, to_fixed(grid.bits, change))
    w, u = shrink(less(w, tree.scale(_spare(grid), epsilon)), u, grid.d, grid.n)
    x = less(theta, _drift(root, eta, to_real(grid.bits, w)))
    g = _slope(grid, k, leaves, beta, to_real(grid.bits, x))
    w = less(w, _kick(root, eta, g))
    theta = less(x, _drift(root, eta, to_real(grid.bits, w)))

    def first(root, eta, theta, w):
        return tree.add(theta, _drift(root, eta, w))

    def second(root, gamma, eta, x, w, g):
        push = _kick(root, eta, g)
        moved = tree.add(w, push)
        new = tree.axpy(gamma, moved, tree.scale(jnp.sqrt(1 - gamma**2), epsilon))
        return tree.add(x, _drift(root, eta, moved)), new, _gain(push, w)

    gamma, real_w = jnp.asarray(grid.n / grid.d, gamma.dtype), to_real(grid.bits, w)
    _, pull_first = jax.vjp(first, root, eta, to_real(grid.bits, theta), real_w)
    _, pull_second = jax.vjp(second, root, gamma, eta, to_real(grid.bits, x), real_w, g)
    root_2, gamma_2, eta_2, x_2, w_2, ct_g = pull_second((ct_theta, ct_w, ct_total))
    some, x_g = _pull_back(grid, leaves, wanted, beta, to_real(grid.bits, x), ct_g)
    root_1, eta_1, ct_theta, w_1 = pull_first(tree.add(x_2, x_g))
    ct_beta = some.pop() if wanted[-1] else jnp.zeros_like(beta)
    sums = tree.add(sums, (some, tree.add(root_1, root_2), gamma_2))
    return ((theta, w, u), (ct_theta, tree.add(w_1, w_2)), sums), (ct_beta, eta_1 + eta_2)
