r"""Energies of images: nets that take one image (channel, height, width) and give f, all of smooth activations.

A net of ReLUs has no curvature for Langevin steps to feel, and batch normalisation ties chains together: neither is
here.
"""

from __future__ import annotations

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp

from langevin.nets.convolution import Conv


class Convolutional(eqx.Module):
    """3×3 convolutions, all but the first halving the image, SiLU between, and a dense layer to one number."""

    layers: list[Conv]
    head: eqx.nn.Linear

    def __init__(self, shape: tuple[int, int, int], key: jax.Array, widths: tuple[int, ...] = (32, 64, 64)):
        k_head, *keys = jax.random.split(key, 1 + len(widths))
        ins = (shape[0], *widths[:-1])
        pairs = enumerate(zip(ins, widths, keys, strict=True))
        self.layers = [Conv(a, b, 3, k, stride=min(i + 1, 2)) for i, (a, b, k) in pairs]
        places = 1
        for side in shape[1:]:
            places *= -(-side // 2 ** (len(widths) - 1))
        self.head = eqx.nn.Linear(widths[-1] * places, 1, key=k_head)

    def __call__(self, x):
        for layer in self.layers:
            x = jax.nn.silu(layer(x))
        return self.head(x.reshape(-1))


class Residual(eqx.Module):
    """Blocks x + conv(silu(conv(silu x))), halving between widths, the sum over places, a dense layer."""

    stem: Conv
    blocks: list[tuple[Conv, Conv]]
    falls: list[Conv]
    head: eqx.nn.Linear

    def __init__(self, shape: tuple[int, int, int], key: jax.Array, widths: tuple[int, ...] = (64, 128, 128)):
        k_stem, k_head, *keys = jax.random.split(key, 2 + 3 * len(widths))
        self.stem = Conv(shape[0], widths[0], 3, k_stem)
        self.blocks = [(Conv(w, w, 3, keys[3 * i]), Conv(w, w, 3, keys[3 * i + 1])) for i, w in enumerate(widths)]
        self.falls = [Conv(a, b, 3, keys[3 * i + 2], stride=2) for i, (a, b) in enumerate(pairwise(widths))]
        self.head = eqx.nn.Linear(widths[-1], 1, key=k_head)

    def __call__(self, x):
        x = self.stem(x)
        for i, (first, second) in enumerate(self.blocks):
            x = x + second(jax.nn.silu(first(jax.nn.silu(x))))
            if i < len(self.falls):
                x = self.falls[i](jax.nn.silu(x))
        return self.head(jnp.sum(jax.nn.silu(x), axis=(1, 2)))
