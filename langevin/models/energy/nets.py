r"""Energies of images: nets that take one image (channel, height, width) and give f, all of smooth activations.

A net of ReLUs has no curvature for Langevin steps to feel, and batch normalisation ties chains together: neither is
here.
"""

from __future__ import annotations

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp


class Convolutional(eqx.Module):
    """A 3×3 convolution, then 4×4 ones that halve the image, SiLU between, and a dense layer to one number."""

    layers: list[eqx.nn.Conv2d]
    head: eqx.nn.Linear

    def __init__(self, shape: tuple[int, int, int], key: jax.Array, widths: tuple[int, ...] = (32, 64, 64)):
        depth, height, width = shape
        keys = jax.random.split(key, len(widths) + 1)
        ins = (depth, *widths[:-1])
        kinds = [(3, 1, 1)] + [(4, 2, 1)] * (len(widths) - 1)
        self.layers = [
            eqx.nn.Conv2d(a, b, *kind, key=k) for a, b, kind, k in zip(ins, widths, kinds, keys[:-1], strict=True)
        ]
        halved = len(widths) - 1
        flat = widths[-1] * (height >> halved) * (width >> halved)
        self.head = eqx.nn.Linear(flat, 1, key=keys[-1])

    def __call__(self, x):
        for layer in self.layers:
            x = jax.nn.silu(layer(x))
        return self.head(x.reshape(-1))


class Residual(eqx.Module):
    """Blocks x + conv(silu(conv(silu x))), halving between widths, the sum over places, a dense layer."""

    stem: eqx.nn.Conv2d
    blocks: list[tuple[eqx.nn.Conv2d, eqx.nn.Conv2d]]
    falls: list[eqx.nn.Conv2d]
    head: eqx.nn.Linear

    def __init__(self, shape: tuple[int, int, int], key: jax.Array, widths: tuple[int, ...] = (64, 128, 128)):
        k_stem, k_head, *keys = jax.random.split(key, 2 + 3 * len(widths))
        conv = lambda a, b, k, stride=1: eqx.nn.Conv2d(a, b, 3, stride, 1, key=k)
        self.stem = conv(shape[0], widths[0], k_stem)
        self.blocks = [(conv(w, w, keys[3 * i]), conv(w, w, keys[3 * i + 1])) for i, w in enumerate(widths)]
        self.falls = [conv(a, b, keys[3 * i + 2], 2) for i, (a, b) in enumerate(pairwise(widths))]
        self.head = eqx.nn.Linear(widths[-1], 1, key=k_head)

    def __call__(self, x):
        x = self.stem(x)
        for i, (first, second) in enumerate(self.blocks):
            x = x + second(jax.nn.silu(first(jax.nn.silu(x))))
            if i < len(self.falls):
                x = self.falls[i](jax.nn.silu(x))
        return self.head(jnp.sum(jax.nn.silu(x), axis=(1, 2)))
