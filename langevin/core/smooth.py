r"""log(1 + eˣ) and log σ(x) whose derivatives need no logarithm.

    softplus(x) = log(1 + eˣ),  softplus' = σ;        log_sigmoid(x) = −softplus(−x).

JAX differentiates softplus by way of its value, so a gradient alone costs a logarithm too, which on a CPU is most of a
logistic regression. Here the derivative is σ(x), one exponential.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp


@jax.custom_jvp
def softplus(x: jax.Array) -> jax.Array:
    """log(1 + eˣ)."""
    return jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


@softplus.defjvp
def _softplus_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return softplus(x), jax.nn.sigmoid(x) * t


def log_sigmoid(x: jax.Array) -> jax.Array:
    """log σ(x)."""
    return -softplus(-x)
