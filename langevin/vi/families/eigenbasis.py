r"""Gaussians that are independent in a Kronecker-factored basis of every array.

    W = M + U_a (S∘E) U_bᵀ,  E_ij ~ N(0, 1),      entropy Σ log S + (d/2) log 2πe,

with U_a, U_b orthogonal, so that the covariance of vec W is (U_b ⊗ U_a) diag(S²) (U_b ⊗ U_a)ᵀ: the Kronecker-factored
Laplace approximation with any diagonal, of which A ⊗ B + τ I is one. Arrays of more than two axes have all but the last
as rows, those of one are one row. φ = (M, log S, bases). A fit by gradients leaves the bases as
they are: `Fit(begin=Laplace())` goes on from those of the curvature.

References
----------
Ritter, Botev & Barber (2018), A scalable Laplace approximation for neural networks.
George, Laurent, Bouthillier, Ballas & Vincent (2018), Fast approximate natural gradient descent in a
    Kronecker-factored eigenbasis.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from langevin.core import noise, tree
from langevin.core.record import positive, record
from langevin.core.types import PyTree
from langevin.vi.curvature import matrix_shape
from langevin.vi.families.mean_field import LOG_2PI, entropy_of_unit, fill_log
from langevin.vi.family import total


class Turned(NamedTuple):
    """φ: `bases` is a list, one pair (U_a, U_b) an array of the position."""

    mean: PyTree
    log_scale: PyTree
    bases: list[Any]


@record
class Eigenbasis:
    """A Gaussian, independent in a Kronecker-factored basis of every array.

    scale: standard deviation of every coordinate at first.
    """

    scale: float = positive(default=0.02)

    def init(self, key, position):
        shapes = [matrix_shape(u.shape) for u in jax.tree.leaves(position)]
        return Turned(position, fill_log(position, self.scale), [(jnp.eye(a), jnp.eye(b)) for a, b in shapes])

    def sample(self, key, params):
        unit = tree.mul(jax.tree.map(jnp.exp, params.log_scale), noise.like(key, params.mean))
        return tree.add(params.mean, _turn(jax.lax.stop_gradient(params.bases), unit))

    def log_prob(self, params, position):
        back = [(a.T, b.T) for a, b in jax.lax.stop_gradient(params.bases)]
        turned = _turn(back, tree.sub(position, params.mean))
        unit = jax.tree.map(lambda x, s: x * jnp.exp(-s), turned, params.log_scale)
        log_det = total(jax.tree.map(jnp.sum, params.log_scale))
        return -0.5 * tree.dot(unit, unit) - log_det - 0.5 * tree.size(position) * LOG_2PI

    def entropy(self, params):
        return total(jax.tree.map(jnp.sum, params.log_scale)) + entropy_of_unit(params.mean)

    def mean(self, params):
        return params.mean

    def variance(self, params):
        square = jax.tree.map(lambda s: jnp.exp(2 * s), params.log_scale)
        return _turn([(a**2, b**2) for a, b in jax.lax.stop_gradient(params.bases)], square)


def _turn(bases, x):
    """U_a X U_bᵀ of every array."""
    leaves, structure = jax.tree.flatten(x)
    one = lambda u, a, b: (a @ u.reshape(matrix_shape(u.shape)) @ b.T).reshape(u.shape)
    return jax.tree.unflatten(structure, [one(u, *pair) for u, pair in zip(leaves, bases, strict=True)])
