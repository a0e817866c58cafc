r"""Radial Gaussians: draws of every array lie about as far from its mean in many dimensions as in one.

    θ = μ + σ∘u r,      u uniform on the unit sphere of the array's d coordinates,  r = |N(0, 1)|.

Draws of a Gaussian in d dimensions lie at a distance near √d σ, away from the mean where the density is largest; these
do not. log q(θ) = log 2N(r; 0, 1) − log S_{d−1} r^{d−1} − Σ log σ with S the area of the sphere, and r = ‖(θ − μ)/σ‖.

References
----------
Farquhar, Osborne & Gal (2020), Radial Bayesian neural networks, eqs. (3), (9).
"""

from __future__ import annotations

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from langevin.core import noise
from langevin.core.record import positive, record
from langevin.vi.families.mean_field import LOG_2PI, Normal, fill_log
from langevin.vi.family import total

LOG_RADIUS = -0.5 * (float(np.euler_gamma) + math.log(2))  # E log |N(0, 1)|


@record
class Radial:
    """Gaussian radius and uniform direction, of every array by itself.

    scale: standard deviation of the distance from the mean at first, in every coordinate's direction.
    """

    scale: float = positive(default=0.02)
    signs: ClassVar[bool] = True

    def init(self, key, position):
        return Normal(position, fill_log(position, self.scale))

    def sample(self, key, params):
        k_direction, k_radius = jax.random.split(key)
        towards = noise.like(k_direction, params.mean)
        radius = noise.like(k_radius, jax.tree.map(lambda u: jnp.zeros((), u.dtype), params.mean))

        def one(m, s, e, r):
            return m + jnp.exp(s) * e * (jnp.abs(r) / jnp.sqrt(jnp.maximum(jnp.sum(e**2), 1e-30)))

        return jax.tree.map(one, params.mean, params.log_scale, towards, radius)

    def log_prob(self, params, position):
        def one(x, m, s):
            r = jnp.sqrt(jnp.maximum(jnp.sum(((x - m) * jnp.exp(-s)) ** 2), 1e-30))
            return math.log(2) - 0.5 * (r**2 + LOG_2PI) - log_area(x.size) - (x.size - 1) * jnp.log(r) - jnp.sum(s)

        return total(jax.tree.map(one, position, params.mean, params.log_scale))

    def entropy(self, params):
        def one(s):
            shell = 0.5 * (1 + LOG_2PI) - math.log(2) + log_area(s.size) + (s.size - 1) * LOG_RADIUS
            return shell + jnp.sum(s)

        return total(jax.tree.map(one, params.log_scale))

    def mean(self, params):
        return params.mean

    def variance(self, params):
        return jax.tree.map(lambda s: jnp.exp(2 * s) / s.size, params.log_scale)


def log_area(d: int):
    """log of the area of the unit sphere in d dimensions."""
    return math.log(2) + 0.5 * d * math.log(math.pi) - gammaln(0.5 * d)
