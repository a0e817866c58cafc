r"""Shapes that are hard for samplers: bananas, a funnel, mixtures, rings.

References
----------
Haario, Saksman & Tamminen (1999), Adaptive proposal distribution for random walk Metropolis algorithm (the banana).
Neal (2003), Slice sampling, §8 (the funnel).
Zhang et al. (2020), Cyclical stochastic gradient MCMC for Bayesian deep learning, §5.1 (25 Gaussians).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp, ndtr

from langevin.core.record import positive, record, static
from langevin.core.types import Key
from langevin.targets.zoo.known import LOG_2PI, Known, normal


@record
class Banana(Known):
    """Twisted Gaussians in d/2 independent planes: x₁ ~ N(0, scale²), x₂ ~ N(curvature (x₁² − scale²), 1).

    curvature: b, how bent.
    scale: the standard deviation of x₁.
    d: dimension, even; a position is (d,), plane after plane.
    """

    curvature: Any = 0.1
    scale: Any = positive(default=3.0)
    d: int = static(default=2)
    log_z = 0.0

    def __post_init__(self):
        if self.d < 2 or self.d % 2:
            raise ValueError(f"Banana: d is {self.d}; it must be even, for it is made of planes.")

    @property
    def mean(self) -> jax.Array:
        return jnp.zeros(self.d)

    @property
    def variance(self) -> jax.Array:
        plane = jnp.stack([self.scale**2, 1.0 + 2.0 * self.curvature**2 * self.scale**4])
        return jnp.tile(plane, self.d // 2)

    @property
    def cov(self) -> jax.Array:
        return jnp.diag(self.variance)

    def log_density(self, position):
        first, second = position[0::2], position[1::2]
        return normal(first, self.scale) + normal(second - self.curvature * (first**2 - self.scale**2))

    def exact(self, key: Key, n: int) -> jax.Array:
        z = jax.random.normal(key, (n, self.d // 2, 2))
        first = self.scale * z[..., 0]
        second = z[..., 1] + self.curvature * (first**2 - self.scale**2)
        return jnp.stack([first, second], axis=-1).reshape(n, self.d)

    def latent(self, position) -> jax.Array:
        """The plane unbent: independent N(0, 1)."""
        first, second = position[0::2], position[1::2]
        straight = second - self.curvature * (first**2 - self.scale**2)
        return jnp.stack([first / self.scale, straight], axis=-1).reshape(self.d)


@record
class Funnel(Known):
    """Neal's funnel: v ~ N(0, scale²), then d − 1 coordinates ~ N(0, e^v); a position is (d,), v first.

    d: dimension.
    scale: the standard deviation of v.
    """

    d: int = static(default=10)
    scale: Any = positive(default=3.0)
    log_z = 0.0

    @property
    def mean(self) -> jax.Array:
        return jnp.zeros(self.d)

    @property
    def variance(self) -> jax.Array:
        return jnp.full(self.d, jnp.exp(0.5 * self.scale**2)).at[0].set(self.scale**2)

    @property
    def cov(self) -> jax.Array:
        return jnp.diag(self.variance)

    def log_density(self, position):
        v, x = position[0], position[1:]
        return normal(v, self.scale) - 0.5 * jnp.sum(x**2 * jnp.exp(-v) + v + LOG_2PI)

    def exact(self, key: Key, n: int) -> jax.Array:
        z = jax.random.normal(key, (n, self.d))
        v = self.scale * z[:, :1]
        return jnp.concatenate([v, z[:, 1:] * jnp.exp(0.5 * v)], axis=1)

    def latent(self, position) -> jax.Array:
        """v/scale and x e^{−v/2}: independent N(0, 1)."""
        v, x = position[:1], position[1:]
        return jnp.concatenate([v / self.scale, x * jnp.exp(-0.5 * v)])


@record
class Mixture(Known):
    """A mixture of Gaussians with independent coordinates.

    weights: (k,), of any positive sum.
    means: (k, d).
    scales: (k, d) standard deviations.
    """

    weights: Any
    means: Any
    scales: Any
    log_z = 0.0

    def __post_init__(self):
        weights, means = jnp.asarray(self.weights, float), jnp.asarray(self.means, float)
        if means.ndim != 2 or weights.shape != means.shape[:1] or jnp.shape(self.scales) != means.shape:
            raise ValueError(
                f"Mixture: weights {weights.shape}, means {means.shape}, scales {jnp.shape(self.scales)} do not fit; "
                "they must be (k,), (k, d) and (k, d)."
            )
        values = {"weights": weights / jnp.sum(weights), "means": means, "scales": jnp.asarray(self.scales, float)}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def grid(cls, side: int = 5, spacing: float = 2.0, scale: float = math.sqrt(0.03)):
        """side² equal Gaussians on a square grid in the plane; by default the 25 of the cSGLD paper."""
        line = spacing * (np.arange(side) - 0.5 * (side - 1))
        means = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
        return cls(np.ones(side**2), means, np.full_like(means, scale))

    @property
    def mean(self) -> jax.Array:
        return self.weights @ self.means

    @property
    def cov(self) -> jax.Array:
        apart = self.means - self.mean[None]
        return jnp.diag(self.weights @ self.scales**2) + (apart * self.weights[:, None]).T @ apart

    @property
    def variance(self) -> jax.Array:
        return jnp.diagonal(self.cov)

    def log_density(self, position):
        each = -0.5 * ((position[None] - self.means) / self.scales) ** 2 - jnp.log(self.scales) - 0.5 * LOG_2PI
        return logsumexp(jnp.log(self.weights) + jnp.sum(each, axis=1))

    def exact(self, key: Key, n: int) -> jax.Array:
        k_which, k_noise = jax.random.split(key)
        which = jax.random.categorical(k_which, jnp.log(self.weights), shape=(n,))
        z = jax.random.normal(k_noise, (n, self.means.shape[1]))
        return self.means[which] + self.scales[which] * z


@record
class Rings(Known):
    """Rings in the plane: p(x) ∝ Σ_k exp(−(|x| − r_k)² / 2 width²).

    The normaliser is the mass of the radial law, closed. Draws invert the radial distribution function, also closed,
    by interpolation between 8192 points: errors about 1e-5 of a width.

    radii: (k,) r_k.
    width: the thickness of a ring.
    """

    radii: Any = dataclasses.field(default_factory=lambda: jnp.array([1.0, 2.5, 4.0]))
    width: Any = positive(default=0.2)
    log_z = 0.0

    def __post_init__(self):
        object.__setattr__(self, "radii", jnp.asarray(self.radii, float))

    def _radial(self):
        """∫ r e^{−(r−r_k)²/2w²} dr and ∫ r³ e^{…} dr over r > 0, each over w √2π, summed over rings."""
        m, w = self.radii, self.width
        a = m / w
        phi, below = jnp.exp(-0.5 * a**2 - 0.5 * LOG_2PI), ndtr(a)
        first = m * below + w * phi
        third = m**3 * below + 3 * m**2 * w * phi + 3 * m * w**2 * (below - a * phi) + w**3 * (a**2 + 2) * phi
        return jnp.sum(first), jnp.sum(third)

    @property
    def mean(self) -> jax.Array:
        return jnp.zeros(2)

    @property
    def variance(self) -> jax.Array:
        first, third = self._radial()
        return jnp.full(2, 0.5 * third / first)

    @property
    def cov(self) -> jax.Array:
        return jnp.diag(self.variance)

    def log_density(self, position):
        square = jnp.sum(position**2)
        away = square > 0
        radius = jnp.where(away, jnp.sqrt(jnp.where(away, square, 1.0)), 0.0)  # no NaN gradient at the centre
        mass = 2 * math.pi * self._radial()[0] * self.width * math.sqrt(2 * math.pi)
        return logsumexp(-0.5 * ((radius - self.radii) / self.width) ** 2) - jnp.log(mass)

    def exact(self, key: Key, n: int) -> jax.Array:
        k_radius, k_angle = jax.random.split(key)
        r = jnp.linspace(0.0, jnp.max(self.radii) + 8.0 * self.width, 8192)[:, None]
        m, w = self.radii[None], self.width
        bell = lambda x: jnp.exp(-0.5 * x**2 - 0.5 * LOG_2PI)
        below = m * (ndtr((r - m) / w) - ndtr(-m / w)) + w * (bell(m / w) - bell((r - m) / w))
        below = jnp.sum(below, axis=1)
        radius = jnp.interp(jax.random.uniform(k_radius, (n,)), below / below[-1], r[:, 0])
        angle = jax.random.uniform(k_angle, (n,), maxval=2 * math.pi)
        return radius[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)


# y = log(e^{E/4} − 1), E ~ Exp(1), has the density 4 e^y (1 + e^y)^−5 and the cumulants ψ⁽ᵏ⁻¹⁾(1) + (−1)ᵏ ψ⁽ᵏ⁻¹⁾(4)
SKEW_1 = -11.0 / 6.0
SKEW_2 = math.pi**2 / 3 - 49.0 / 36.0
SKEW_4 = 2 * math.pi**4 / 15 - 6.0 * (1 + 1 / 16 + 1 / 81)
