r"""Probabilistic principal component analysis, where everything is known.

    z ~ N(0, I),   x | z ~ N(W z + b, σ² I);      x ~ N(b, C), C = W Wᵀ + σ² I,

    z | x ~ N(M⁻¹ Wᵀ(x − b), σ² M⁻¹),   M = Wᵀ W + σ² I.

The maximum of the likelihood is W = U (Λ − σ² I)^{1/2} R, σ² the mean of the eigenvalues left out, U and Λ the first
eigenvectors and eigenvalues of the covariance, and R any rotation.

References
----------
Tipping & Bishop (1999), Probabilistic principal component analysis, eqs. (4)-(8).
Chen, Li, Zhang & Li, Bayesian Computation in Deep Learning, eqs. (3.14)-(3.15).
"""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from langevin.core.record import positive, record
from langevin.core.types import Key, PyTree
from langevin.evidence.base import LOG_2PI
from langevin.vae.likelihoods import Gaussian
from langevin.vae.model import LatentModel


class LinearDecoder(eqx.Module):
    """z ↦ (W z + b, log σ)."""

    weight: jax.Array
    bias: jax.Array
    log_scale: jax.Array

    def __call__(self, z):
        mean = self.weight @ z + self.bias
        return jnp.stack([mean, jnp.broadcast_to(self.log_scale, mean.shape)])


class LinearEncoder(eqx.Module):
    """x ↦ (A x + a, log s): the exact posterior is of this form where WᵀW is diagonal."""

    weight: jax.Array
    bias: jax.Array
    log_scale: jax.Array

    def __call__(self, x):
        return jnp.stack([self.weight @ x + self.bias, self.log_scale])


@record
class PPCA:
    """The model.

    weight: W (size, latent).
    bias: b (size,).
    scale: σ.
    """

    weight: Any
    bias: Any
    scale: float = positive(default=1.0)

    @property
    def latent(self) -> int:
        return self.weight.shape[1]

    def log_prob(self, x: jax.Array) -> jax.Array:
        """log p(x) of rows x (row, size), in the time of the latent space."""
        W, variance, d = self.weight, self.scale**2, x.shape[-1]
        inner = W.T @ W + variance * jnp.eye(self.latent)
        chol = jnp.linalg.cholesky(inner)
        y = x - self.bias[None]
        # Woodbury: yᵀC⁻¹y = (|y|² − |L⁻¹Wᵀy|²)/σ²,  log|C| = log|M| + (d − latent) log σ²
        part = jax.scipy.linalg.solve_triangular(chol, (y @ W).T, lower=True)
        square = (jnp.sum(y**2, axis=-1) - jnp.sum(part**2, axis=0)) / variance
        log_det = 2 * jnp.sum(jnp.log(jnp.diag(chol))) + (d - self.latent) * jnp.log(variance)
        return -0.5 * (square + log_det + d * LOG_2PI)

    def posterior(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Mean (row, latent) and covariance (latent, latent) of z given x."""
        inner = self.weight.T @ self.weight + self.scale**2 * jnp.eye(self.latent)
        inverse = jnp.linalg.inv(inner)
        return (x - self.bias[None]) @ self.weight @ inverse, self.scale**2 * inverse

    def sample(self, key: Key, n: int) -> tuple[jax.Array, jax.Array]:
        """(z, x) of n examples."""
        k_z, k_x = jax.random.split(key)
        z = jax.random.normal(k_z, (n, self.latent))
        return z, z @ self.weight.T + self.bias[None] + self.scale * jax.random.normal(k_x, (n, self.bias.shape[0]))

    def as_latent(self) -> tuple[LatentModel, PyTree]:
        """The same as a LatentModel, and its weights."""
        net = LinearDecoder(self.weight, self.bias, jnp.log(jnp.asarray(self.scale)))
        theta, program = eqx.partition(net, eqx.is_inexact_array)
        return LatentModel(program, Gaussian(), self.latent), theta

    @classmethod
    def of(cls, theta: LinearDecoder) -> PPCA:
        """The model that a decoder's weights stand for."""
        return cls(theta.weight, theta.bias, jnp.exp(theta.log_scale))

    @classmethod
    def fit(cls, x: Any, latent: int) -> PPCA:
        """The maximum of the likelihood, in closed form; its WᵀW is diagonal."""
        x = np.asarray(x, np.float64)
        n, d = x.shape
        if not 1 <= latent < d:
            raise ValueError(f"PPCA.fit: latent is {latent}; it must be from 1 to {d - 1}, one less than the columns.")
        if not np.isfinite(x).all():
            raise ValueError("PPCA.fit: x has missing or infinite values; drop those rows, or fill the gaps.")
        bias = x.mean(0)
        values, vectors = np.linalg.eigh((x - bias).T @ (x - bias) / n)
        values, vectors = values[::-1], vectors[:, ::-1]
        variance = max(values[latent:].mean(), 1e-12)
        weight = vectors[:, :latent] * np.sqrt(np.maximum(values[:latent] - variance, 0))
        as_single = lambda u: jnp.asarray(u, jnp.float32)
        return cls(as_single(weight), as_single(bias), math.sqrt(variance))

    def angle(self, other: PPCA) -> float:
        """The largest principal angle between the spaces that both W span, in radians."""
        one, two = (np.linalg.qr(np.asarray(u.weight, np.float64))[0] for u in (self, other))
        # by sines: a cosine near 1 knows a small angle to eight digits less
        rest = two - one @ (one.T @ two)
        return float(np.arcsin(np.clip(np.linalg.svd(rest, compute_uv=False).max(), 0, 1)))
