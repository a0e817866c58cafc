"""Gaussians, and independent skewed coordinates: the targets of the generic tests."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from langevin.core.record import record
from langevin.core.types import Key, PyTree
from langevin.targets.zoo.known import Known, keys_like, normal, total


@record
class Gaussian(Known):
    """N(mean, covariance); the factors are found in float64 when it is built, so build it outside `jit`.

    mean: (d,).
    covariance: (d, d), or (d,) variances of independent coordinates.
    factor: L with L Lᵀ = covariance, found from it.
    whiten: L⁻¹, found from it.
    """

    mean: Any
    covariance: Any
    factor: Any = dataclasses.field(default=None, init=False)
    whiten: Any = dataclasses.field(default=None, init=False)
    log_z = 0.0

    def __post_init__(self):
        covariance = np.asarray(self.covariance, np.float64)
        factor = np.sqrt(covariance) if covariance.ndim == 1 else np.linalg.cholesky(covariance)
        whiten = 1.0 / factor if covariance.ndim == 1 else np.linalg.inv(factor)
        values = {"mean": self.mean, "covariance": covariance, "factor": factor, "whiten": whiten}
        for name, value in values.items():
            object.__setattr__(self, name, jnp.asarray(value, jnp.result_type(float)))

    @classmethod
    def conditioned(cls, d: int, condition: float, *, shape="diagonal", key: Key | None = None, rho: float = 0.9):
        """Mean 0, variances log-spaced around 1 with ratio `condition`; shape "diagonal", "rotated" by a random
        rotation (needs `key`), or "ar1": correlation rho^|i−j| (which adds to the condition number)."""
        variance = condition ** np.linspace(-0.5, 0.5, d)
        if shape == "diagonal":
            return cls(np.zeros(d), variance)
        if shape == "rotated":
            if key is None:
                raise ValueError("Gaussian.conditioned: shape 'rotated' draws a rotation; give it a key.")
            q = np.asarray(jax.random.orthogonal(key, d), np.float64)
            turned = (q * variance) @ q.T
            return cls(np.zeros(d), 0.5 * (turned + turned.T))
        if shape != "ar1":
            raise ValueError(f"Gaussian.conditioned: shape is {shape!r}; it must be 'diagonal', 'rotated' or 'ar1'.")
        apart = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
        scale = np.sqrt(variance)
        return cls(np.zeros(d), np.outer(scale, scale) * rho**apart)

    @property
    def independent(self) -> bool:
        return self.covariance.ndim == 1

    @property
    def cov(self) -> jax.Array:
        return jnp.diag(self.covariance) if self.covariance.ndim == 1 else self.covariance

    @property
    def variance(self) -> jax.Array:
        return self.covariance if self.covariance.ndim == 1 else jnp.diagonal(self.covariance)

    def log_density(self, position):
        x = position - self.mean
        if self.whiten.ndim == 1:
            return normal(self.whiten * x) + jnp.sum(jnp.log(self.whiten))
        return normal(self.whiten @ x) + jnp.sum(jnp.log(jnp.diagonal(self.whiten)))

    def exact(self, key: Key, n: int) -> jax.Array:
        z = jax.random.normal(key, (n, self.mean.shape[0]))
        return self.mean[None] + (z * self.factor[None] if self.factor.ndim == 1 else z @ self.factor.T)

    def latent(self, position) -> jax.Array:
        """L⁻¹ (x − mean): independent N(0, 1)."""
        x = position - self.mean
        return self.whiten * x if self.whiten.ndim == 1 else self.whiten @ x


class Independent(Known):
    """Abstract: independent coordinates, each with its mean and standard deviation `scale`; normalised."""

    scale: PyTree
    log_z = 0.0
    independent = True

    @property
    def variance(self) -> PyTree:
        return jax.tree.map(jnp.square, self.scale)


# y = log(e^{E/4} − 1), E ~ Exp(1), has the density 4 e^y (1 + e^y)^−5 and the cumulants ψ⁽ᵏ⁻¹⁾(1) + (−1)ᵏ ψ⁽ᵏ⁻¹⁾(4)
SKEW_1 = -11.0 / 6.0
SKEW_2 = math.pi**2 / 3 - 49.0 / 36.0
SKEW_4 = 2 * math.pi**4 / 15 - 6.0 * (1 + 1 / 16 + 1 / 81)


@record
class Skew(Independent):
    """Independent skewed coordinates of unequal scales: x = mean + scale (y − E y)/sd(y), e^y + 1 Pareto of index 4.

    y is the log of a ratio of gamma variables (shapes 1 and 4): skewness −0.87, kurtosis 4.76. Its gradient is bounded
    and Lipschitz, so that unadjusted kernels are stable on it.

    mean: the mean, {"a": (3,), "b": ()}.
    scale: the standard deviations, in the same shape.
    """

    mean: PyTree = dataclasses.field(
        default_factory=lambda: {"a": jnp.array([0.3, 0.0, -1.0]), "b": jnp.asarray(-0.2, float)}
    )
    scale: PyTree = dataclasses.field(
        default_factory=lambda: {"a": jnp.array([0.5, 1.0, 2.0]), "b": jnp.asarray(0.7, float)}
    )

    @property
    def fourth(self) -> PyTree:
        """E (x − mean)⁴."""
        return jax.tree.map(lambda s: s**4 * (3.0 + SKEW_4 / SKEW_2**2), self.scale)

    def log_density(self, position):
        def one(x, m, s):
            y = SKEW_1 + math.sqrt(SKEW_2) * (x - m) / s
            return jnp.sum(y - 5.0 * jax.nn.softplus(y) + math.log(4.0 * math.sqrt(SKEW_2)) - jnp.log(s))

        return total(jax.tree.map(one, position, self.mean, self.scale))

    def exact(self, key: Key, n: int) -> PyTree:
        def one(k, m, s):
            # a float32 exponential can be 0, whose logarithm is not a draw
            y = jnp.log(jnp.expm1(0.25 * jnp.maximum(jax.random.exponential(k, (n, *m.shape)), 2.0**-25)))
            return m[None] + s[None] * (y - SKEW_1) / math.sqrt(SKEW_2)

        return jax.tree.map(one, keys_like(key, self.mean), self.mean, self.scale)


@record
class Scales(Independent):
    """Independent Gaussian coordinates of scales 0.5 to 2 in a tree, by default of mean 0.

    mean: the mean, {"a": (3,), "b": (2, 2)}.
    scale: the standard deviations, in the same shape.
    """

    mean: PyTree = dataclasses.field(default_factory=lambda: {"a": jnp.zeros(3), "b": jnp.zeros((2, 2))})
    scale: PyTree = dataclasses.field(
        default_factory=lambda: {"a": jnp.array([0.5, 1.0, 2.0]), "b": jnp.array([[0.7, 1.4], [1.2, 0.6]])}
    )

    @property
    def fourth(self) -> PyTree:
        """E (x − mean)⁴."""
        return jax.tree.map(lambda s: 3.0 * s**4, self.scale)

    def log_density(self, position):
        return total(jax.tree.map(lambda x, m, s: normal(x - m, s), position, self.mean, self.scale))

    def exact(self, key: Key, n: int) -> PyTree:
        one = lambda k, m, s: m[None] + s[None] * jax.random.normal(k, (n, *m.shape))
        return jax.tree.map(one, keys_like(key, self.mean), self.mean, self.scale)

    def latent(self, position) -> jax.Array:
        """(x − mean)/scale of every coordinate: independent N(0, 1)."""
        return ravel_pytree(jax.tree.map(lambda x, m, s: (x - m) / s, position, self.mean, self.scale))[0]
