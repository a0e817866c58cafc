"""A target whose estimates carry Gaussian noise of known size: what mini-batches do, without data."""

from typing import Any

import jax
import jax.numpy as jnp

from langevin.core.record import record
from langevin.core.target import Derived
from langevin.core.types import Eval

FREQUENCIES = 40.0 + 7.3 * jnp.arange(12.0) ** 1.1


@record
class Noisy(Derived):
    """log p̂(x) = log p(x) + slope·⟨n, x⟩ + rough·f(x), ĝ(x) = g(x) + slope·n, n ~ N(0, I).

    f is a Gaussian field of unit variance, nearly uncorrelated between positions a tenth apart; ĝ leaves it out.

    target: an exact target on vectors.
    zero: a position, for its shape.
    slope: standard deviation of the gradient noise.
    rough: standard deviation of the energy noise; None for none.
    """

    target: Any
    zero: Any
    slope: float = 0.0
    rough: Any = None
    stochastic = True

    def log_density(self, position):
        return self.target.log_density(position)

    def draw(self, key, feed, *, fraction=1.0):
        # the second of each is what the halves differ by
        k_slope, k_rough = jax.random.split(key)
        n = jax.random.normal(k_slope, (2, *self.zero.shape)) / fraction**0.5
        if self.rough is None:
            return (n, None), feed
        return (n, jax.random.normal(k_rough, (2, 2, FREQUENCIES.size)) / fraction**0.5), feed

    def evaluate(self, batch, position):
        n, m = batch

        def estimate(x):
            tilted = self.target.log_density(x) + self.slope * jnp.sum(n[0] * x)
            if m is None:
                return tilted
            angle = FREQUENCIES * jax.lax.stop_gradient(jnp.sum(x))
            field = (m[0, 0] @ jnp.cos(angle) + m[0, 1] @ jnp.sin(angle)) / FREQUENCIES.size**0.5
            return tilted + self.rough * field

        value, grad = jax.value_and_grad(estimate)(position)
        return Eval(value, grad, jnp.ones((), jnp.int32))

    def parts(self, batch, n):
        assert n == 2
        return tuple(jax.tree.map(lambda u: u.at[0].add(sign * u[1]), batch) for sign in (1.0, -1.0))
