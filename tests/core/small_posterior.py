"""A small posterior in memory and on disk."""

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import noise
from langevin.core.posterior import sample
from langevin.nets.mlp import MLP
from langevin.samplers.sghmc import SGHMC
from langevin.targets.zoo import logistic

TARGET = logistic(noise.key(0, impl="hash"), 50, 3, batch=8, order="epoch")
START = np.linspace(-0.5, 0.5, 6, dtype=np.float32).reshape(2, 3)
KERNEL = SGHMC(step_size=0.02, friction=2.0)


def draw(seed=1, *, kernel=KERNEL, target=TARGET, start=START, draws=40, chunk=16, **options):
    return sample(noise.key(seed, impl="hash"), kernel, target, start, draws=draws, chunk=chunk, **options)


def same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for u, v in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert jnp.result_type(u) == jnp.result_type(v)
        np.testing.assert_array_equal(u, v)


def square(x):
    return {"square": x**2, "sum": jnp.sum(x)}


def build(key):
    return MLP((1, 4, 1), key, jnp.tanh)
