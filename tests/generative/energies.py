"""Small energies and kernels that the tests of energy-based models share."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from langevin.core.kernel import Kernel, begin, report
from langevin.core.record import record
from langevin.core.types import Law
from langevin.energy.energy import Energy


class Quadratic(eqx.Module):
    """f = −a |x|²/2."""

    a: jax.Array

    def __call__(self, x):
        return -0.5 * self.a * jnp.sum(x**2)


@record
class Shift(Kernel):
    """Moves by one a step, with weights e^x: a kernel to count with."""

    by: float = 1.0

    def init(self, key, position, target):
        return begin(key, position, target)

    def step(self, key, state, target):
        evaluation, feed = target.estimate(key, state.feed, state.position + self.by)
        new = state._replace(position=state.position + self.by, eval=evaluation, feed=feed, count=state.count + 1)
        return new, report(new, log_weight=jnp.sum(new.position))

    def law(self):
        return Law("wrong", 0.0, None, "none")


looked = jax.jit(
    lambda key, target, feed, position: target.estimate(key, feed, position)
)  # one operation at a time it takes a hundred programs


def quadratic(a=2.0, **how) -> Energy:
    return Energy.of(Quadratic(jnp.float32(a)), (1,), **how)


DATA = np.random.default_rng(0).normal(size=(4000, 1)).astype(np.float32)


def z_score(values, expected):
    return (values.mean() - expected) / (values.std(ddof=1) / math.sqrt(len(values)))
