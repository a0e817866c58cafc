"""Metrics for kernels with a momentum: kinetic energy ½ pᵀ M⁻¹ p with M⁻¹ the identity, a diagonal or dense.

The best M⁻¹ is the covariance of the target. All three are records with the same three methods.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from langevin.core import noise, tree
from langevin.core.record import record
from langevin.core.types import Key, PyTree, Scalar


@record
class Identity:
    """M = I."""

    def momentum(self, key: Key, position: PyTree) -> PyTree:
        return noise.like(key, position)

    def velocity(self, momentum: PyTree) -> PyTree:
        return momentum

    def root(self, unit: PyTree) -> PyTree:
        """M^−½ applied to unit noise: the scale of a step in position."""
        return unit


@record
class Diagonal:
    """M⁻¹ diagonal.

    variance: a tree like the position; the diagonal of M⁻¹.
    """

    variance: PyTree

    def momentum(self, key: Key, position: PyTree) -> PyTree:
        return jax.tree.map(lambda n, v: n / jnp.sqrt(v), noise.like(key, position), self.variance)

    def velocity(self, momentum: PyTree) -> PyTree:
        return tree.mul(self.variance, momentum)

    def root(self, unit: PyTree) -> PyTree:
        return jax.tree.map(lambda n, v: n * jnp.sqrt(v), unit, self.variance)


@record
class Dense:
    """M⁻¹ a full matrix over the raveled position.

    covariance: (d, d), M⁻¹.
    """

    covariance: jax.Array

    def momentum(self, key: Key, position: PyTree) -> PyTree:
        unit, unravel = ravel_pytree(noise.like(key, position))
        factor = jnp.linalg.cholesky(self.covariance)
        return unravel(jax.scipy.linalg.solve_triangular(factor.T, unit, lower=False))

    def velocity(self, momentum: PyTree) -> PyTree:
        flat, unravel = ravel_pytree(momentum)
        return unravel(self.covariance @ flat)

    def root(self, unit: PyTree) -> PyTree:
        flat, unravel = ravel_pytree(unit)
        return unravel(jnp.linalg.cholesky(self.covariance) @ flat)


Metric = Identity | Diagonal | Dense


def kinetic(metric: Metric, momentum: PyTree) -> Scalar:
    """½ pᵀ M⁻¹ p."""
    return 0.5 * tree.dot(momentum, metric.velocity(momentum))
