r"""Nets for images, of convolutions that are matrix products: LeNet and a small residual net.

A convolution with a k×k kernel is the product of all k×k patches, laid out as rows, with a matrix:

    y[i, j] = W ᵀ x[si … si + k, sj … sj + k],      W (k²·in, out).

Under `vmap` over weights (many chains) that is a batch of plain matrix products, where `lax.conv` becomes a grouped
convolution with a few channels a group. Patches are concatenated slices, so their gradient is a sum of slices.

Nets take one image (channel, height, width). The residual net has filter response normalisation in place of that by
batches, which would tie examples together so that a likelihood is no product over them:

    y = (1 + γ) x/√(mean x² + ε) + β,      the mean over the places of a channel.

Weights are drawn N(0, 2/fan_in), biases, γ and β are zero.

References
----------
LeCun, Bottou, Bengio & Haffner (1998), Gradient-based learning applied to document recognition, §II.
He, Zhang, Ren & Sun (2016), Deep residual learning for image recognition, §3.
Singh & Krishnan (2020), Filter response normalization layer, eq. (1)-(3), its threshold left out.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from langevin.nets.mlp import MLP, Dense


def patches(x, size: int, stride: int = 1):
    """Patches of x (height, width, channel) at every `stride`-th place, zeros beyond the rim: (h, w, size²·channel).

    h = ⌈height/stride⌉; a patch is ordered by its column, row, channel.
    """
    h, w, _ = x.shape
    # as convolutions padded "SAME": what is missing is put on both sides, the odd one last
    rims = [max((-(-n // stride) - 1) * stride + size - n, 0) for n in (h, w)]
    x = jnp.pad(x, [(r // 2, r - r // 2) for r in rims] + [(0, 0)])
    take = lambda i, n: slice(i, i + (-(-n // stride) - 1) * stride + 1, stride)
    # rows first, then columns: 2·size slices in place of size²
    x = jnp.concatenate([x[take(i, h)] for i in range(size)], axis=-1)
    return jnp.concatenate([x[:, take(j, w)] for j in range(size)], axis=-1)


class Convolution(eqx.Module):
    """x (height, width, in) ↦ (⌈height/stride⌉, ⌈width/stride⌉, out), padded with zeros."""

    dense: Dense
    size: int = eqx.field(static=True)
    stride: int = eqx.field(static=True)

    def __init__(self, n_in: int, n_out: int, size: int, key: jax.Array, stride: int = 1):
        self.dense = Dense(size**2 * n_in, n_out, key)
        self.size, self.stride = size, stride

    def __call__(self, x):
        return self.dense(patches(x, self.size, self.stride))


class Norm(eqx.Module):
    """Filter response normalisation of (height, width, channel)."""

    gain: jax.Array
    shift: jax.Array

    def __init__(self, channels: int):
        self.gain, self.shift = jnp.zeros(channels), jnp.zeros(channels)

    def __call__(self, x):
        scale = jax.lax.rsqrt(jnp.mean(x**2, axis=(0, 1), keepdims=True) + 1e-6)
        return (1 + self.gain)[None, None] * (x * scale) + self.shift[None, None]


class LeNet(eqx.Module):
    """Two 5×5 convolutions with 2×2 pooling, two dense layers."""

    convolutions: list[Convolution]
    head: MLP
    activation: Callable = eqx.field(static=True)

    def __init__(
        self,
        shape: tuple[int, int, int],
        n_out: int,
        key: jax.Array,
        channels: tuple[int, int] = (6, 16),
        hidden: int = 84,
        activation: Callable = jax.nn.gelu,
    ):
        depth, height, width = shape
        k_first, k_second, k_head = jax.random.split(key, 3)
        self.convolutions = [
            Convolution(depth, channels[0], 5, k_first),
            Convolution(channels[0], channels[1], 5, k_second),
        ]
        flat = channels[1] * (height // 4) * (width // 4)
        self.head = MLP((flat, hidden, n_out), k_head, activation)
        self.activation = activation

    def __call__(self, x):
        x = jnp.moveaxis(x, 0, -1)
        for convolution in self.convolutions:
            x = pooled(self.activation(convolution(x)))
        return self.head(x.reshape(-1))


class Block(eqx.Module):
    """x ↦ relu(shortcut(x) + norm(conv(relu(norm(conv(x)))))), the first convolution and the shortcut by `stride`."""

    first: Convolution
    second: Convolution
    shortcut: Convolution
    norms: list[Norm]

    def __init__(self, n_in: int, n_out: int, key: jax.Array, stride: int):
        k_first, k_second, k_short = jax.random.split(key, 3)
        self.first = Convolution(n_in, n_out, 3, k_first, stride)
        self.second = Convolution(n_out, n_out, 3, k_second)
        self.shortcut = Convolution(n_in, n_out, 1, k_short, stride)
        self.norms = [Norm(n_out), Norm(n_out)]

    def __call__(self, x):
        y = jax.nn.relu(self.norms[0](self.first(x)))
        return jax.nn.relu(self.shortcut(x) + self.norms[1](self.second(y)))


class ResNet(eqx.Module):
    """A 3×3 convolution, a residual block for every width, each halving the image, the mean over places, a dense layer.

    With widths (32, 64, 128) and images 3×32×32 it has 308,000 weights and seven 3×3 convolutions.
    """

    stem: Convolution
    norm: Norm
    blocks: list[Block]
    head: Dense

    def __init__(
        self, shape: tuple[int, int, int], n_out: int, key: jax.Array, widths: tuple[int, ...] = (32, 64, 128)
    ):
        k_stem, k_head, *keys = jax.random.split(key, 2 + len(widths))
        self.stem, self.norm = Convolution(shape[0], widths[0], 3, k_stem), Norm(widths[0])
        ins = (widths[0], *widths[:-1])
        self.blocks = [Block(a, b, k, stride=2) for a, b, k in zip(ins, widths, keys, strict=True)]
        self.head = Dense(widths[-1], n_out, k_head)

    def __call__(self, x):
        x = jax.nn.relu(self.norm(self.stem(jnp.moveaxis(x, 0, -1))))
        for block in self.blocks:
            x = block(x)
        return self.head(jnp.mean(x, axis=(0, 1)))


def pooled(x):
    """The maximum over 2×2 squares of (height, width, channel)."""
    h, w, c = x.shape
    return x[: h // 2 * 2, : w // 2 * 2].reshape(h // 2, 2, w // 2, 2, c).max((1, 3))
