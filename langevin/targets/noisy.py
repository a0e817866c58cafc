r"""A target whose gradients carry Gaussian noise of known covariance: what mini-batches do, without data.

    log p̂(θ) = log p(θ) + n·θ,      ĝ(θ) = ∇log p(θ) + n,      n = σ∘z + W(ω∘y),      z, y ~ N(0, I),

with a standard deviation σ for every coordinate and, if there are any, ω along the orthonormal columns of W. Halves of
a batch have n ± n', n' an independent copy, so that half their difference has the law of n.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from langevin.core.record import record
from langevin.core.target import Derived
from langevin.core.types import Eval


@record
class Noisy(Derived):
    """An exact target seen through noise.

    target: the exact target.
    scale: σ, a vector over the raveled position.
    vectors: W, (d, k); None for none.
    spikes: ω, the k standard deviations along them.
    """

    target: Any
    scale: jax.Array
    vectors: Any = None
    spikes: Any = None
    stochastic = True

    def log_density(self, position):
        return self.target.log_density(position)

    def draw(self, key, feed, *, fraction=1.0):
        # two: the noise, and what the halves differ by
        keys = jax.random.split(key)
        n = jax.random.normal(keys[0], (2, self.scale.size)) * self.scale[None]
        if self.vectors is not None:
            n = n + (jax.random.normal(keys[1], (2, self.spikes.size)) * self.spikes[None]) @ self.vectors.T
        return n / jnp.sqrt(fraction), feed

    def evaluate(self, batch, position):
        def estimate(position):
            return self.target.log_density(position) + jnp.sum(batch[0] * ravel_pytree(position)[0])

        value, grad = jax.value_and_grad(estimate)(position)
        return Eval(value, grad, jnp.ones((), jnp.int32))

    def parts(self, batch, n):
        if n != 2:
            raise ValueError(f"Noisy: a batch has two parts, not {n}.")
        n, other = batch[0], batch[1]
        return jnp.stack([n + other, other]), jnp.stack([n - other, other])
