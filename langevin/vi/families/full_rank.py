r"""A Gaussian with any covariance, by its Cholesky factor: exact where the posterior is Gaussian.

    q(θ) = N(μ, L Lᵀ),  L = diag(σ) U,      θ = μ + σ∘(U ε),      entropy Σ_j log σ_j + (d/2) log 2πe,

U a lower triangle with ones on its diagonal. φ = (μ, U with log σ on its diagonal): with L itself, a step of Adam would
be as wide for narrow coordinates as for wide ones. It has d²/2 numbers; for nets of more than a few thousand weights
take `LowRank` or `MatrixNormal`.

References
----------
Kucukelbir, Tran, Ranganath, Gelman & Blei (2017), Automatic differentiation variational inference, §2.4.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import solve_triangular

from langevin.core import noise, tree
from langevin.core.record import positive, record
from langevin.core.types import PyTree
from langevin.vi.families.mean_field import LOG_2PI, entropy_of_unit

LARGEST = 10_000  # coordinates of a dense factor


class Factored(NamedTuple):
    """φ: the mean, and the lower triangle U with log σ in place of the ones on its diagonal."""

    mean: PyTree
    factor: jax.Array


@record
class FullRank:
    """A Gaussian with a dense covariance.

    scale: standard deviation of every coordinate at first.
    """

    scale: float = positive(default=0.02)

    def init(self, key, position):
        d = tree.size(position)
        if d > LARGEST:
            raise ValueError(
                f"FullRank: {d} coordinates, and a dense covariance is made of {LARGEST} at most; take LowRank or "
                "MatrixNormal."
            )
        return Factored(position, jnp.eye(d) * jnp.log(self.scale))

    def sample(self, key, params):
        flat, unravel = ravel_pytree(params.mean)
        return unravel(flat + triangle(params.factor) @ noise.like(key, flat))

    def log_prob(self, params, position):
        apart = ravel_pytree(tree.sub(position, params.mean))[0]
        unit = solve_triangular(triangle(params.factor), apart, lower=True)
        return -0.5 * jnp.sum(unit**2) - jnp.trace(params.factor) - 0.5 * apart.size * LOG_2PI

    def entropy(self, params):
        return jnp.trace(params.factor) + entropy_of_unit(params.mean)

    def mean(self, params):
        return params.mean

    def variance(self, params):
        unravel = ravel_pytree(params.mean)[1]
        return unravel(jnp.sum(triangle(params.factor) ** 2, axis=1))


def triangle(factor):
    """L = diag(σ) U, from U with log σ on its diagonal."""
    return jnp.exp(jnp.diagonal(factor))[:, None] * (jnp.tril(factor, -1) + jnp.eye(len(factor)))


def factor_of(low):
    """U with log σ on its diagonal, of a lower triangle L."""
    diagonal = jnp.diagonal(low)
    return jnp.tril(low, -1) / diagonal[:, None] + jnp.diag(jnp.log(diagonal))


def factored(mean: PyTree, covariance: jax.Array) -> Factored:
    """φ of a Gaussian with this covariance."""
    low = jnp.linalg.cholesky(covariance)
    if not isinstance(low, jax.core.Tracer) and not bool(jnp.isfinite(jnp.diagonal(low)).all()):
        raise ValueError("FullRank: the covariance is singular or not symmetric; it must be positive definite.")
    return Factored(mean, factor_of(low))
