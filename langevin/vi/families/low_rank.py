r"""A Gaussian whose covariance is low-rank plus diagonal, of all weights together or of each array alone.

    q(θ) = N(μ, F Fᵀ + D),  F = σ∘U (d, r),  D = diag(σ²),      θ = μ + σ∘(U ζ + ε),  ζ ~ N(0, I_r).

With C = I + Uᵀ U (r, r), log |F Fᵀ + D| = log |C| + Σ log σ² (determinant lemma), and (F Fᵀ + D)⁻¹ by Woodbury's
identity. φ = (μ, log σ, U): with F itself, a step of Adam would be as wide for narrow coordinates as for wide ones.

References
----------
Chen, Li, Zhang & Li, Bayesian Computation in Deep Learning, eq. (2.22).
Ong, Nott & Smith (2018), Gaussian variational approximation with a factor covariance structure.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from langevin.core import noise, tree
from langevin.core.record import positive, record, static
from langevin.core.types import PyTree
from langevin.vi.families.mean_field import LOG_2PI, entropy_of_unit, fill_log
from langevin.vi.family import total


class Spread(NamedTuple):
    """φ: the factor U has the shape of the position with a leading axis of r."""

    mean: PyTree
    log_scale: PyTree
    factor: PyTree


@record
class LowRank:
    """A Gaussian with covariance F Fᵀ + diag(σ²).

    scale: standard deviation of every coordinate at first.
    rank: r, columns of F.
    scope: "global", one F for all weights, or "layer", one for each array.
    """

    scale: float = positive(default=0.02)
    rank: int = static(default=5)
    scope: Literal["global", "layer"] = static(default="global")

    def __post_init__(self):
        if self.rank < 1 or self.scope not in ("global", "layer"):
            raise ValueError(
                f"LowRank: rank is {self.rank} and scope {self.scope!r}; take a rank of 1 or more, and 'global' or "
                "'layer'."
            )

    def init(self, key, position):
        wide = jax.tree.map(lambda u: jnp.zeros((self.rank, *jnp.shape(u)), u.dtype), position)
        # not zero: a factor of zeros has no gradient to leave zero by
        factor = tree.scale(0.3 / self.rank**0.5, noise.like(key, wide))
        return Spread(position, fill_log(position, self.scale), factor)

    def sample(self, key, params):
        k_own, k_shared = jax.random.split(key)
        if self.scope == "global":
            z = noise.like(k_shared, jnp.zeros(self.rank))
            zs = jax.tree.map(lambda f: z.astype(f.dtype), params.factor)
        else:
            zs = noise.like(k_shared, jax.tree.map(lambda f: f[(slice(None), *[0] * (f.ndim - 1))], params.factor))
        own = noise.like(k_own, params.mean)
        unit = jax.tree.map(lambda e, f, z: e + jnp.tensordot(z, f, 1), own, params.factor, zs)
        return tree.add(params.mean, tree.mul(jax.tree.map(jnp.exp, params.log_scale), unit))

    def log_prob(self, params, position):
        value = total(jax.tree.map(lambda s: -jnp.sum(s), params.log_scale)) - 0.5 * tree.size(position) * LOG_2PI
        apart = jax.tree.map(lambda x, m, s: (x - m) * jnp.exp(-s), position, params.mean, params.log_scale)
        for factor, unit in self._blocks(params, apart):
            low = jnp.linalg.cholesky(_inner(factor))
            shared = solve_triangular(low, _times(factor, unit), lower=True)
            value += -0.5 * (tree.dot(unit, unit) - jnp.sum(shared**2)) - jnp.sum(jnp.log(jnp.diagonal(low)))
        return value

    def entropy(self, params):
        value = total(jax.tree.map(jnp.sum, params.log_scale)) + entropy_of_unit(params.mean)
        for factor, _ in self._blocks(params, params.mean):
            value += 0.5 * jnp.linalg.slogdet(_inner(factor))[1]
        return value

    def mean(self, params):
        return params.mean

    def variance(self, params):
        return jax.tree.map(lambda s, f: jnp.exp(2 * s) * (1 + jnp.sum(f**2, axis=0)), params.log_scale, params.factor)

    def _blocks(self, params, x):
        """(U, x) of every block of coordinates that share a factor."""
        if self.scope == "global":
            return [(params.factor, x)]
        return list(zip(jax.tree.leaves(params.factor), jax.tree.leaves(x), strict=True))


def _inner(factor):
    """I + Fᵀ F."""
    flat = [f.reshape(f.shape[0], -1) for f in jax.tree.leaves(factor)]
    return jnp.eye(flat[0].shape[0]) + sum(f @ f.T for f in flat)


def _times(factor, x):
    """Fᵀ x."""
    pairs = zip(jax.tree.leaves(factor), jax.tree.leaves(x), strict=True)
    return sum(f.reshape(f.shape[0], -1) @ u.reshape(-1) for f, u in pairs)
