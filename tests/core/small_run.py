"""One small run with momentum and an epoch feed, shared by the tests of the loop."""

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import noise
from langevin.core.run import run
from langevin.samplers.sghmc import SGHMC
from langevin.targets.zoo import logistic

TARGET = logistic(noise.key(0, impl="hash"), 50, 3, batch=8, order="epoch")
START = np.linspace(-0.5, 0.5, 12, dtype=np.float32).reshape(4, 3)
SGHMC_ = SGHMC(step_size=0.02, friction=2.0)


def go(seed=1, *, kernel=SGHMC_, target=TARGET, start=START, draws=100, chunk=50, **options):
    return run(noise.key(seed, impl="hash"), kernel, target, start, draws=draws, chunk=chunk, **options)


def flat(x):
    """All leaves, each as (chain, draw, …), to compare bits."""
    return [np.asarray(u) for u in jax.tree.leaves(x)]


def same(a, b):
    for u, v in zip(flat(a), flat(b), strict=True):
        np.testing.assert_array_equal(u, v)


def parabola(x):
    return -0.5 * jnp.sum(x**2)


def identity(x):
    return x


def late(x):
    """Flat, with a cliff into NaN beyond 10."""
    return jnp.where(jnp.sum(x) < 10.0, 0.1 * jnp.sum(x), jnp.nan)
