r"""Factorised Gaussians: every weight has its own mean and standard deviation.

    q(θ) = Π_j N(θ_j; μ_j, σ_j²),      θ = μ + σ∘ε,      entropy Σ_j log σ_j + (d/2) log 2πe.

φ = (μ, log σ). The chapter's eq. (2.16) writes S² for the variance where its reparameterisation has √S; here σ is the
standard deviation in both.

References
----------
Chen, Li, Zhang & Li, Bayesian Computation in Deep Learning, eqs. (2.16), (2.18).
Blundell, Cornebise, Kavukcuoglu & Wierstra (2015), Weight uncertainty in neural networks.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from langevin.core import noise, tree
from langevin.core.record import positive, record
from langevin.core.types import PyTree
from langevin.vi.family import total

LOG_2PI = math.log(2 * math.pi)


class Normal(NamedTuple):
    """φ of a factorised Gaussian."""

    mean: PyTree
    log_scale: PyTree


@record
class MeanField:
    """A factorised Gaussian.

    scale: standard deviation of every coordinate at first.
    """

    scale: float = positive(default=0.02)
    signs: ClassVar[bool] = True

    def init(self, key, position):
        return Normal(position, fill_log(position, self.scale))

    def sample(self, key, params):
        unit = noise.like(key, params.mean)
        return jax.tree.map(lambda m, s, e: m + jnp.exp(s) * e, params.mean, params.log_scale, unit)

    def log_prob(self, params, position):
        return log_normal(position, params.mean, params.log_scale)

    def entropy(self, params):
        return total(jax.tree.map(jnp.sum, params.log_scale)) + entropy_of_unit(params.mean)

    def mean(self, params):
        return params.mean

    def variance(self, params):
        return jax.tree.map(lambda u: jnp.exp(u) ** 2, params.log_scale)  # the exponential that a draw has, too


def fill_log(position, scale):
    """log scale in the shape of a position."""
    return jax.tree.map(lambda u: jnp.full(jnp.shape(u), jnp.log(scale), u.dtype), position)


def log_normal(position, mean, log_scale):
    """Σ log N(θ_j; μ_j, σ_j²) over a tree."""

    def one(x, m, s):
        return -0.5 * jnp.sum(((x - m) * jnp.exp(-s)) ** 2) - jnp.sum(s) - 0.5 * x.size * LOG_2PI

    return total(jax.tree.map(one, position, mean, log_scale))


def entropy_of_unit(position):
    """The entropy of N(0, I) in the shape of a position."""
    return 0.5 * tree.size(position) * (1 + LOG_2PI)
