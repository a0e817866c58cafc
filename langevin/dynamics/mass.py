r"""Metrics for kernels with a momentum or a velocity: M⁻¹ = S Sᵀ, S the identity, diagonal, low-rank or dense.

The kinetic energy is ½ pᵀ M⁻¹ p; equally, positions are θ = S φ and the kernel is plain in φ. The best M⁻¹ is the
covariance of the target. All are records with the same four methods.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from langevin.core import noise, tree
from langevin.core.record import record
from langevin.core.types import Key, PyTree, Scalar


@record
class IdentityMetric:
    """M = I."""

    def momentum(self, key: Key, position: PyTree) -> PyTree:
        return noise.like(key, position)

    def velocity(self, momentum: PyTree) -> PyTree:
        return momentum

    def root(self, unit: PyTree) -> PyTree:
        """S applied to unit noise: the scale of a step in position."""
        return unit

    def pull(self, grad: PyTree) -> PyTree:
        """Sᵀ applied to a gradient in θ: the gradient in φ."""
        return grad


@record
class DiagonalMetric:
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

    def pull(self, grad: PyTree) -> PyTree:
        return self.root(grad)


@record
class DenseMetric:
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

    def pull(self, grad: PyTree) -> PyTree:
        flat, unravel = ravel_pytree(grad)
        return unravel(jnp.linalg.cholesky(self.covariance).T @ flat)


@record
class LowRankMetric:
    """S = D (I + U (Λ − I) Uᵀ): a diagonal, and k directions with scales of their own.

    scale: D, a tree like the position; standard deviations, not variances.
    vectors: U, (d, k), orthonormal columns over the raveled position.
    stretch: the k numbers of Λ, positive.
    """

    scale: PyTree
    vectors: jax.Array
    stretch: jax.Array

    def momentum(self, key: Key, position: PyTree) -> PyTree:
        unit = self._along(noise.like(key, position), 1 / self.stretch)
        return jax.tree.map(lambda n, s: n / s, unit, self.scale)

    def velocity(self, momentum: PyTree) -> PyTree:
        return self.root(self.pull(momentum))

    def root(self, unit: PyTree) -> PyTree:
        return tree.mul(self.scale, self._along(unit, self.stretch))

    def pull(self, grad: PyTree) -> PyTree:
        return self._along(tree.mul(self.scale, grad), self.stretch)

    def _along(self, v: PyTree, stretch: jax.Array) -> PyTree:
        """(I + U (diag(stretch) − I) Uᵀ) v."""
        flat, unravel = ravel_pytree(v)
        return unravel(flat + self.vectors @ ((stretch - 1) * (self.vectors.T @ flat)))


Metric = IdentityMetric | DiagonalMetric | DenseMetric | LowRankMetric


def kinetic(metric: Metric, momentum: PyTree) -> Scalar:
    """½ pᵀ M⁻¹ p."""
    return 0.5 * tree.dot(momentum, metric.velocity(momentum))
