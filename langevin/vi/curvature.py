r"""The curvature of a posterior at a position: Gauss–Newton of the data, exact of the prior.

With outputs f_i(θ) of which the likelihood of example i is a function, J_i = ∂f_i/∂θ and the Fisher information
R_i R_iᵀ of the outputs,

    −∇² log p(θ | D) ≈ G + P,      G = Σ_i J_iᵀ R_i R_iᵀ J_i = Σ r rᵀ over rows r of R_iᵀ J_i,      P = −∇² log prior.

G is positive semi-definite everywhere and the Hessian of the data where f is linear (or its information known, as of
logits and log rates, and f fits). Without outputs G is −∇² of the log likelihood itself, which may be indefinite. Sums
over examples run in blocks, so that memory does not grow with the data.

Of every array, seen as a matrix W (a, b), whose rows r are matrices J: the Kronecker product A ⊗ B nearest to its block
of G is found by alternating A ← Σ J B Jᵀ/‖B‖², B ← Σ Jᵀ A J/‖A‖², and the diagonal of the block in the eigenbasis of
A and B is exact.

References
----------
Martens (2020), New insights and perspectives on the natural gradient method, §8.
Schnaus, Lee & Triebel (2021), Kronecker-factored optimal curvature.
George, Laurent, Bouthillier, Ballas & Vincent (2018), Fast approximate natural gradient descent in a
    Kronecker-factored eigenbasis, §3.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree

from langevin.core.types import PyTree

NUMBERS = 1 << 22  # of rows that are held at once


@runtime_checkable
class HasOutputs(Protocol):
    """A log likelihood that is a function of outputs (example, k) alone: `given(outputs(position, data), data)`.

    `root` (example, k, k) is a root of the Fisher information of the outputs.
    """

    def outputs(self, position: PyTree, data: PyTree) -> jax.Array: ...
    def given(self, out: jax.Array, data: PyTree) -> jax.Array: ...
    def root(self, out: jax.Array, data: PyTree) -> jax.Array: ...


def rows(likelihood: HasOutputs, position: PyTree, data: PyTree) -> jax.Array:
    """R_iᵀ J_i of some examples, (example · k, d)."""
    flat, unravel = ravel_pytree(position)

    def one(example):
        alone = jax.tree.map(lambda u: u[None], example)
        out, pull = jax.vjp(lambda flat: likelihood.outputs(unravel(flat), alone)[0], flat)
        return jax.vmap(lambda column: pull(column)[0])(likelihood.root(out[None], alone)[0].T)

    found = jax.vmap(one)(data)
    return found.reshape(-1, flat.size)


def summed(fn: Callable[[jax.Array], PyTree], likelihood: HasOutputs, position: PyTree, data: PyTree) -> PyTree:
    """Σ fn(rows of a block) over all examples; fn of rows of zeros must be zero."""
    n = jax.tree.leaves(data)[0].shape[0]
    flat = ravel_pytree(position)[0]
    k = jax.eval_shape(likelihood.outputs, position, jax.tree.map(lambda u: u[:1], data)).shape[1]
    block = max(1, min(n, NUMBERS // (k * flat.size)))
    blocks = math.ceil(n / block)
    index = jnp.arange(blocks * block).reshape(blocks, block)

    def turn(total, index):
        part = jax.tree.map(lambda u: jnp.take(u, index, axis=0, mode="clip"), data)
        here = jnp.repeat(index < n, k)[:, None]
        return jax.tree.map(jnp.add, total, fn(jnp.where(here, rows(likelihood, position, part), 0.0))), None

    shape = jax.eval_shape(fn, jax.ShapeDtypeStruct((block * k, flat.size), flat.dtype))
    zeros = jax.tree.map(lambda u: jnp.zeros(u.shape, u.dtype), shape)
    return lax.scan(turn, zeros, index)[0]


def of_data(target: Any, position: PyTree, *, dense: bool) -> jax.Array:
    """G, (d, d), or its diagonal."""
    if isinstance(target.log_likelihood, HasOutputs):
        fn = (lambda r: r.T @ r) if dense else (lambda r: jnp.sum(r**2, axis=0))
        return summed(fn, target.log_likelihood, position, target.data)
    flat, unravel = ravel_pytree(position)
    density = lambda flat: jnp.sum(target.likelihood(unravel(flat), target.data))
    return hessian(density, flat, dense=dense)


def of_prior(target: Any, position: PyTree, *, dense: bool) -> jax.Array:
    """P, (d, d), or its diagonal."""
    flat, unravel = ravel_pytree(position)
    return hessian(lambda flat: target.prior(unravel(flat)), flat, dense=dense)


def hessian(density: Callable[[jax.Array], jax.Array], x: jax.Array, *, dense: bool) -> jax.Array:
    """−∇² of a function, some columns at a time, or its diagonal."""

    def column(i):
        e = jnp.zeros_like(x).at[i].set(1.0)
        product = -jax.jvp(jax.grad(density), (x,), (e,))[1]
        return product if dense else product[i]

    return lax.map(column, jnp.arange(x.size), batch_size=64)


def is_factorized(target: Any, position: PyTree) -> jax.Array:
    """Whether the prior's curvature is a diagonal, as products with two vectors of signs show."""
    flat, unravel = ravel_pytree(position)
    grad = jax.grad(lambda flat: target.prior(unravel(flat)))
    product = lambda v: v * jax.jvp(grad, (flat,), (v,))[1]
    signs = jax.random.rademacher(jax.random.key(0), flat.shape, flat.dtype)
    a, b = product(jnp.ones_like(flat)), product(signs)
    return jnp.all(jnp.abs(a - b) <= 1e-3 * jnp.abs(a) + 1e-6)


def diagonal_of_prior(target: Any, position: PyTree) -> jax.Array:
    """The diagonal of P of a prior that is independent, by one product."""
    flat, unravel = ravel_pytree(position)
    grad = jax.grad(lambda flat: target.prior(unravel(flat)))
    return -jax.jvp(grad, (flat,), (jnp.ones_like(flat),))[1]


# --- Kronecker factors ------------------------------------------------------------------------------------------


def matrices(flat_rows: jax.Array, position: PyTree) -> list[jax.Array]:
    """The rows (m, d) as matrices (m, a, b) of every array."""
    unravel = ravel_pytree(position)[1]
    return [u.reshape(-1, *matrix_shape(u.shape[1:])) for u in jax.tree.leaves(jax.vmap(unravel)(flat_rows))]


def matrix_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Of an array as a matrix: all axes but the last are its rows."""
    return math.prod(shape[:-1]), (shape[-1] if shape else 1)


def kronecker(target: Any, position: PyTree, turns: int = 2) -> list[tuple[jax.Array, jax.Array]]:
    """(A, B) of every array."""
    likelihood, data = target.log_likelihood, target.data
    shapes = [matrix_shape(u.shape) for u in jax.tree.leaves(position)]
    right = [jnp.eye(b) for _, b in shapes]
    for _ in range(turns):
        over = lambda r, right=right: [
            jnp.einsum("mab,bc,mdc->ad", j, B, j) / jnp.maximum(jnp.sum(B**2), 1e-30)
            for j, B in zip(matrices(r, position), right, strict=True)
        ]
        left = summed(over, likelihood, position, data)
        under = lambda r, left=left: [
            jnp.einsum("mab,ac,mcd->bd", j, A, j) / jnp.maximum(jnp.sum(A**2), 1e-30)
            for j, A in zip(matrices(r, position), left, strict=True)
        ]
        right = summed(under, likelihood, position, data)
    return list(zip(left, right, strict=True))


def in_basis(target: Any, position: PyTree, bases: list[tuple[jax.Array, jax.Array]]) -> list[jax.Array]:
    """The diagonal of every array's block of G in the basis U_a ⊗ U_b, (a, b)."""
    turned = lambda r: [
        jnp.sum(jnp.einsum("mab,ac,bd->mcd", j, a, b) ** 2, axis=0)
        for j, (a, b) in zip(matrices(r, position), bases, strict=True)
    ]
    return summed(turned, target.log_likelihood, position, target.data)
