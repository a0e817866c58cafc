r"""Mixtures of isotropic Gaussians under a diffusion: their score at every time in closed form.

    p_0 = Σ w_k N(μ_k, τ_k² I),      p_t = Σ w_k N(m_t μ_k, (m_t² τ_k² + s_t²) I).

With it a sampler's own error is seen, with none of a network's; `Rough` spoils it on purpose.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from langevin.core.record import record
from langevin.core.types import Key


@record
class Components:
    """Abstract: a mixture of isotropic Gaussians under a forward diffusion.

    process: the forward diffusion.
    means: μ (component, d).
    std: τ (component,).
    weights: w (component,), adding to one.
    """

    process: Any
    means: Any
    std: Any
    weights: Any


@record
class MixtureScore(Components):
    """The score of a diffused mixture, (x, t) → ∇log p_t(x), with its log density."""

    def log_density(self, x, t):
        """log p_t(x), normalised."""
        m, s = self.process.marginal(t)
        variance = (m * self.std) ** 2 + s**2
        square = jnp.sum((x[None] - m * self.means) ** 2, axis=-1)
        d = x.shape[-1]
        return logsumexp(-0.5 * (square / variance + d * jnp.log(2 * math.pi * variance)), b=self.weights)

    def __call__(self, x, t):
        # the mean over components, each weighed by its share of the density: no gradient of a logarithm of 0
        m, s = self.process.marginal(t)
        variance = (m * self.std) ** 2 + s**2
        pull = (m * self.means - x[None]) / variance[:, None]
        square = jnp.sum((x[None] - m * self.means) ** 2, axis=-1)
        share = jax.nn.softmax(jnp.log(self.weights) - 0.5 * (square / variance + x.shape[-1] * jnp.log(variance)))
        return share @ pull

    def exact(self, key: Key, n: int, t: Any = None) -> jax.Array:
        """Draws of p_0, or of p_t."""
        k_component, k_noise = jax.random.split(key)
        index = jax.random.choice(k_component, self.weights.shape[0], (n,), p=self.weights)
        mean, variance = self.means[index], self.std[index] ** 2
        if t is not None:
            m, s = self.process.marginal(t)
            mean, variance = m * mean, m**2 * variance + s**2
        return mean + jnp.sqrt(variance)[:, None] * jax.random.normal(k_noise, mean.shape)

    def moments(self, t: Any = None) -> tuple[jax.Array, jax.Array]:
        """Mean (d,) and second moments (d, d)."""
        m, s = (1.0, 0.0) if t is None else self.process.marginal(t)
        mean = m * (self.weights @ self.means)
        centre = m * self.means
        outer = jnp.einsum("k,ki,kj->ij", self.weights, centre, centre)
        spread = jnp.sum(self.weights * ((m * self.std) ** 2 + s**2))
        return mean, outer + spread * jnp.eye(centre.shape[-1])


@record
class DampedScore(Components):
    """The score of a mixture under CLD, (u, t) → (0, ∇_v log p_t(u)), with the log density of u."""

    def _parts(self, u, t):
        """Per component: x and v off their means (component, d), and the covariance's entries."""
        p, _, r, _ = self.process.transition(t)
        entries = self.process.covariance(t, self.std**2, self.process.gamma * self.process.mass)
        return u[0][None] - p * self.means, u[1][None] - r * self.means, [e[:, None] for e in entries]

    def _log_parts(self, u, t):
        x, v, (xx, xv, vv, determinant) = self._parts(u, t)
        square = (vv * x**2 - 2 * xv * x * v + xx * v**2) / determinant
        each = -0.5 * jnp.sum(square + jnp.log(determinant), axis=1) - u[0].size * math.log(2 * math.pi)
        return each + jnp.log(self.weights)

    def log_density(self, u, t):
        return logsumexp(self._log_parts(u, t))

    def __call__(self, u, t):
        x, v, (xx, xv, _, determinant) = self._parts(u, t)
        s = jax.nn.softmax(self._log_parts(u, t)) @ ((xv * x - xx * v) / determinant)
        return jnp.stack([jnp.zeros_like(s), s])


@record
class Rough:
    """A score with a smooth error, as a network has: s(x, t) + size · sin(2 x + 1).

    score: the score.
    size: how large the error is, of a score that is about 1/τ at the data.
    """

    score: Any
    size: float = 0.3
    conservative = False  # no log density is told

    def __call__(self, x, t):
        return self.score(x, t) + self.size * jnp.sin(2 * x + 1)


def ring(process: Any, n: int = 8, radius: float = 2.0, std: float = 0.2) -> MixtureScore:
    """n equal Gaussians on a circle."""
    angle = 2 * math.pi * jnp.arange(n) / n
    means = radius * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=-1)
    return MixtureScore(process, means, jnp.full(n, std), jnp.full(n, 1 / n))
