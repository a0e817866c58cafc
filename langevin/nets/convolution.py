"""A convolution for compiled loops, of one image, its weights shared by all images of a `vmap`.

On an accelerator it is XLA's. On CPU it is a matrix product of patches: inside a compiled loop, where all training and
sampling is, XLA's convolution for CPU is twenty times slower than outside. (Where every chain has weights of its own,
`nets.images` has another.)
"""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax


class Conv(eqx.Module):
    """A convolution of (channel, height, width), padded with zeros to keep its size (over the stride)."""

    weight: jax.Array
    bias: jax.Array
    stride: int = eqx.field(static=True)

    def __init__(self, n_in: int, n_out: int, size: int, key: jax.Array, stride: int = 1):
        self.weight = jax.random.normal(key, (n_out, n_in, size, size)) / math.sqrt(n_in * size**2)
        self.bias = jnp.zeros(n_out)
        self.stride = stride

    def __call__(self, x):
        product = by_patches if jax.default_backend() == "cpu" else by_convolution
        return product(x, self.weight, self.stride) + self.bias[:, None, None]


def by_convolution(x, weight, stride: int):
    rim = weight.shape[-1] // 2
    return lax.conv_general_dilated(x[None], weight, (stride, stride), [(rim, rim)] * 2)[0]


def by_patches(x, weight, stride: int):
    size, (_, h, w) = weight.shape[-1], x.shape
    rim = size // 2
    x = jnp.pad(x, ((0, 0), (rim, rim), (rim, rim)))
    cut = lambda i, n: slice(i, i + n, stride)
    shifted = jnp.stack([x[:, cut(i, h), cut(j, w)] for i in range(size) for j in range(size)], axis=1)
    return jnp.tensordot(weight.reshape(weight.shape[0], -1, size**2), shifted, 2)
