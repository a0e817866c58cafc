"""What an estimator builds by default: an MLP with one of four activations, and a likelihood that counts weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core.record import record, replace
from langevin.nets.mlp import MLP


def relu(x):  # JAX's own are no functions of a module, as pickle wants them
    return jax.nn.relu(x)


def tanh(x):
    return jnp.tanh(x)


def silu(x):
    return jax.nn.silu(x)


def gelu(x):
    return jax.nn.gelu(x)


ACTIVATIONS = {f.__name__: f for f in (relu, tanh, silu, gelu)}


@record
class Weighted:
    """Log likelihoods of data = (x, y, w), each times its weight; or of (x, y, w, c), with c added before.

    likelihood: of (x, y).
    """

    likelihood: Any

    def __call__(self, position, data):
        x, y, weight, *offset = data
        return weight * (self.likelihood(position, (x, y)) + sum(offset))

    def outputs(self, position, data):
        return self.likelihood.outputs(position, data[:2])

    def given(self, out, data):
        x, y, weight, *offset = data
        return weight * (self.likelihood.given(out, (x, y)) + sum(offset))

    def root(self, out, data):
        return jnp.sqrt(data[2])[:, None, None] * self.likelihood.root(out, data[:2])


def mlp(owner: str, sizes: tuple[int, ...], activation: str) -> Callable[[Any], MLP]:
    """A function of a key that builds the network. owner: who is named where the activation is not known."""
    if activation not in ACTIVATIONS:
        raise ValueError(f"{owner}: activation is {activation!r}; there are {', '.join(ACTIVATIONS)}.")
    if not all(isinstance(n, (int, np.integer)) and n > 0 for n in sizes):
        raise ValueError(f"{owner}: hidden is {sizes[1:-1]}; it must hold whole numbers above 0, the widths of layers.")
    return partial(MLP, sizes, activation=ACTIVATIONS[activation])


def weighed(target: Any, weight: np.ndarray, offset: np.ndarray | None = None) -> Any:
    """The target with the likelihood of each row times its weight, and the log of it moved by `offset`."""
    moved = offset is not None and bool(np.any(offset))
    if (weight == 1).all() and not moved:
        return target
    data = (*target.data, jnp.asarray(weight, jnp.float32), *([jnp.asarray(offset, jnp.float32)] if moved else []))
    return replace(target, log_likelihood=Weighted(target.log_likelihood), data=data)
