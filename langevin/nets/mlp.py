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

from langevin.core.noise import normal, rademacher

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

    def local(self, spread: Dense, key: jax.Array) -> Local:
        """The layer of one example whose weights have these standard deviations."""
        return Local(self, spread, key)

    def flipout(self, change: Dense, key: jax.Array) -> Flipout:
        """The layer of one example that adds these deviations with signs of its own."""
        return Flipout(self, change, key)


class Local(eqx.Module):
    """A layer that draws its outputs: those of one input with independent Gaussian weights.

    mean: the layer of means.
    spread: the layer of standard deviations; None in place of what is fixed.
    key: of the draw.
    """

    mean: Dense
    spread: Dense
    key: jax.Array

    def __call__(self, x):
        if x.ndim != 1:
            raise ValueError(
                f"LocalELBO: a layer reads {x.shape[:-1]} rows of one example, whose outputs share weights; take "
                "FlipoutELBO."
            )
        y, weight, bias = self.mean(x), self.spread.weight, self.spread.bias
        variance = jnp.zeros_like(y) if weight is None else x**2 @ weight**2
        variance = variance if bias is None else variance + bias**2
        # the root of zero has no derivative: an input of zeros, with a bias that is fixed
        return y + jnp.sqrt(jnp.maximum(variance, 1e-30)) * normal(self.key, y.shape).astype(y.dtype)


class Flipout(eqx.Module):
    """A layer with deviations from its weights, turned by signs of the inputs and of the outputs.

    mean: the layer of means.
    change: the layer of deviations; None in place of what is fixed.
    key: of the signs.
    """

    mean: Dense
    change: Dense
    key: jax.Array

    def __call__(self, x):
        y, weight, bias = self.mean(x), self.change.weight, self.change.bias
        k_in, k_out = jax.random.split(self.key)
        turned = lambda key, u: u * jnp.broadcast_to(rademacher(key, u.shape[-1:]).astype(u.dtype), u.shape)
        change = jnp.zeros_like(y) if weight is None else turned(k_in, x) @ weight
        change = change if bias is None else change + jnp.broadcast_to(bias, y.shape)
        return y + turned(k_out, change)


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
