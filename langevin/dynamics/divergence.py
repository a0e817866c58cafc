r"""The divergence of a matrix field A(θ), (∇·A)_i = Σ_j ∂_j A_ij, from products A(θ)v alone.

    exact         Σ_j ∂_{e_j} [A(θ) e_j]                          d differentiated looks
    hutchinson    ∂_u [A(θ) w],      E u wᵀ = I                   one differentiated look, unbiased
    rfd           [A(θ + δv) v − A(θ) v] / δ,     E v vᵀ = I      one more look, bias O(δ²) for symmetric v

`apply(position, v)` is the product; it may depend on data, always the same batch.

References
----------
Hutchinson (1989), A stochastic estimator of the trace of the influence matrix, §2.
Delong, Balboa Usabiaga, Delgado-Buscalioni, Griffith & Donev (2014), Brownian dynamics without Green's functions,
    §III.B (random finite differences).
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree

from langevin.core import tree
from langevin.core.types import PyTree

Apply = Callable[[PyTree, PyTree], PyTree]


def along(apply: Apply, position: PyTree, u: PyTree, w: PyTree) -> PyTree:
    """∂_u [A(θ) w], by forward differentiation."""
    return jax.jvp(lambda position: apply(position, w), (position,), (u,))[1]


def exact(apply: Apply, position: PyTree) -> PyTree:
    """Every column differentiated along itself."""
    flat, unravel = ravel_pytree(position)

    def column(e):
        e = unravel(e)
        return ravel_pytree(along(apply, position, e, e))[0]

    return unravel(jnp.sum(lax.map(column, jnp.eye(flat.size, dtype=flat.dtype)), axis=0))


def rfd(apply: Apply, position: PyTree, v: PyTree, here: PyTree, delta) -> PyTree:
    """The finite difference along v; `here` is A(θ) v."""
    there = apply(tree.axpy(delta, v, position), v)
    return tree.scale(1.0 / delta, tree.sub(there, here))
