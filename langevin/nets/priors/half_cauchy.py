r"""Half-Cauchy and gamma variables as functions of normals, on a log scale.

    λ = tan(π Φ(z)/2),  z ~ N(0, 1)   ⇒   λ ~ C⁺(0, 1),      −log λ(z) = log λ(−z).

For z < 0 it is log λ = log(π Φ(z)/2) + log(tan a / a) with a = π Φ(z)/2: no cancellation, however far out z is.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr, ndtri

LOG_HALF_PI = math.log(math.pi / 2)


def log_half_cauchy(z: jax.Array) -> jax.Array:
    """log λ of z."""
    below = jnp.where(z < 0, z, -z)
    log_a = LOG_HALF_PI + log_ndtr(below)
    a = jnp.exp(log_a)
    safe = jnp.where(a > 1e-3, a, 1e-3)
    log_tan = jnp.where(a > 1e-3, jnp.log(jnp.tan(safe)), log_a + a**2 / 3)
    return jnp.where(z < 0, log_tan, -log_tan)


def of_half_cauchy(value: jax.Array, most: float = 2.0) -> jax.Array:
    """z of λ, held between −most and most."""
    z = ndtri(jnp.clip(2 / math.pi * jnp.arctan(value), 1e-6, 1 - 1e-6))
    return jnp.clip(z, -most, most)


def log_gamma_of(z: jax.Array) -> jax.Array:
    """log of a Gamma(n, 1) variable from n normals along the first axis: of a sum of n exponentials."""
    return jnp.log(jnp.sum(-log_ndtr(z), axis=0))


def logit_uniform(z: jax.Array) -> jax.Array:
    """log u/(1 − u) of u = Φ(z): a logistic variable."""
    return log_ndtr(z) - log_ndtr(-z)
