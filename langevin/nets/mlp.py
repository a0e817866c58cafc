"""A small network to stand on: a multilayer perceptron, as an Equinox module. Nets for images: `nets.images`.

It takes one example; use `jax.vmap` or `MLP.many` for many. Weights are drawn N(0, 2/fan_in) (He et al. 2015) for
ReLU-like activations, biases are zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

NARROW = 64  # the widest layer up to which examples are laid along the vector registers (measured on CPU)


class Dense(eqx.Module):
    """x ↦ x W + b, W (in, out)."""

    weight: jax.Array
    bias: jax.Array

    def __init__(self, n_in: int, n_out: int, key: jax.Array):
        self.weight = jax.random.normal(key, (n_in, n_out)) * math.sqrt(2.0 / n_in)
        self.bias = jnp.zeros(n_out)

    def __call__(self, x):
        y = x @ self.weight
        return y + jnp.broadcast_to(self.bias, y.shape)


class MLP(eqx.Module):
    """A multilayer perceptron: sizes (in, hidden …, out), one activation between layers."""

    layers: list[Dense]
    activation: Callable = eqx.field(static=True)

    def __init__(self, sizes: Sequence[int], key: jax.Array, activation: Callable = jax.nn.relu):
        keys = jax.random.split(key, len(sizes) - 1)
        self.layers = [Dense(a, b, k) for a, b, k in zip(sizes[:-1], sizes[1:], keys, strict=True)]
        self.activation = activation

    def __call__(self, x):
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)

    def many(self, x):
        """The outputs for rows x (n, in); a narrow net works on (width, n), where vectors have room."""
        if max(layer.weight.shape[1] for layer in self.layers) > NARROW:
            return jax.vmap(self)(x)
        for i, layer in enumerate(self.layers):
            x = lax.dot_general(layer.weight, x, (((0,), (0 if i else 1,)), ((), ()))) + layer.bias[:, None]
            x = x if i == len(self.layers) - 1 else self.activation(x)
        return x.T
