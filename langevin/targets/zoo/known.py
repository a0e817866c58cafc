"""What the targets of known truth share."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from langevin.core.target import Exact
from langevin.core.types import Key, PyTree, Scalar

LOG_2PI = math.log(2.0 * math.pi)


class Known(Exact):
    """Abstract: an exact target with a known `mean`, a tree like the position."""

    mean: Any

    @property
    def structure(self) -> PyTree:
        return jax.tree.map(lambda u: jax.ShapeDtypeStruct(jnp.shape(u), jnp.result_type(u)), self.mean)


def normal(x, scale=1.0):
    """Σ log N(x; 0, scale²)."""
    return jnp.sum(-0.5 * (x / scale) ** 2 - jnp.log(scale) - 0.5 * LOG_2PI)


def total(x: PyTree) -> Scalar:
    """The sum over leaves."""
    return sum(jax.tree.leaves(x), jnp.zeros(()))


def keys_like(key: Key, like: PyTree) -> PyTree:
    """One key for every leaf."""
    leaves, structure = jax.tree.flatten(like)
    return jax.tree.unflatten(structure, list(jax.random.split(key, len(leaves))))
