r"""A small U-Net for images of 8 to 64 pixels a side: what a diffusion network is.

Down through resolutions by residual blocks, self-attention at the lowest, and up again with what was set aside on the
way. A block is x + conv(silu(norm(conv(silu(norm(x))) · (1 + a) + b))), with a and b from the time and the label. The
last layer of a block and of the net starts at zero, so a net begins as the identity of its preconditioning.

It takes one image (channel, height, width), a clock (any number; it is embedded by sines) and, if it was built with
classes, a label; of n classes the label n means none. `nets.convolution` says how it convolves.

References
----------
Ronneberger, Fischer & Brox (2015), U-Net: convolutional networks for biomedical image segmentation, fig. 1.
Ho, Jain & Abbeel (2020), Denoising diffusion probabilistic models, app. B.
Dhariwal & Nichol (2021), Diffusion models beat GANs on image synthesis, §3 (scale and shift by the time).
"""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp

from langevin.nets.convolution import Conv

GROUP = 8  # channels in a group of the norm, at least
FASTEST = 1000.0  # radians of the fastest sine per unit of the clock


def embedded(clock, width: int):
    """Sines and cosines of the clock, from slow to fast."""
    rate = jnp.exp(jnp.linspace(0.0, math.log(FASTEST), width // 2))
    angle = clock * rate
    return jnp.concatenate([jnp.sin(angle), jnp.cos(angle)])


def norm(channels: int) -> eqx.nn.GroupNorm:
    return eqx.nn.GroupNorm(max(1, channels // GROUP if channels % GROUP == 0 else 1), channels)


def zeroed(layer):
    """A layer whose output starts at 0."""
    return jax.tree.map(lambda u: jnp.zeros_like(u) if eqx.is_inexact_array(u) else u, layer)


class Block(eqx.Module):
    """A residual block with the time."""

    first: Conv
    second: Conv
    norms: list[eqx.nn.GroupNorm]
    time: eqx.nn.Linear
    skip: Conv | None

    def __init__(self, n_in: int, n_out: int, n_time: int, key: jax.Array):
        k_first, k_second, k_time, k_skip = jax.random.split(key, 4)
        self.first = Conv(n_in, n_out, 3, k_first)
        self.second = zeroed(Conv(n_out, n_out, 3, k_second))
        self.norms = [norm(n_in), norm(n_out)]
        self.time = eqx.nn.Linear(n_time, 2 * n_out, key=k_time)
        self.skip = None if n_in == n_out else Conv(n_in, n_out, 1, k_skip)

    def __call__(self, x, time):
        h = self.first(jax.nn.silu(self.norms[0](x)))
        scale, shift = jnp.split(self.time(time)[:, None, None], 2)
        h = self.norms[1](h) * (1 + scale) + shift
        h = self.second(jax.nn.silu(h))
        return h + (x if self.skip is None else self.skip(x))


class Attention(eqx.Module):
    """Self-attention over places."""

    norm: eqx.nn.GroupNorm
    attention: eqx.nn.MultiheadAttention

    def __init__(self, channels: int, key: jax.Array):
        self.norm = norm(channels)
        self.attention = eqx.nn.MultiheadAttention(max(1, channels // 32), channels, key=key)

    def __call__(self, x):
        rows = self.norm(x).reshape(x.shape[0], -1).T
        return x + self.attention(rows, rows, rows).T.reshape(x.shape)


class UNet(eqx.Module):
    """A U-Net: (image, clock[, label]) → image."""

    time: list[eqx.nn.Linear]
    label: eqx.nn.Embedding | None
    stem: Conv
    down: list[list[Block]]
    shrink: list[Conv]
    middle: tuple[Block, Attention, Block]
    up: list[list[Block]]
    norm: eqx.nn.GroupNorm
    head: Conv
    width: int = eqx.field(static=True)

    def __init__(
        self,
        channels: int,
        key: jax.Array,
        widths: tuple[int, ...] = (32, 64, 128),
        *,
        depth: int = 1,
        classes: int | None = None,
    ):
        """channels: of an image. widths: channels at each resolution. depth: blocks at each. classes: of labels."""
        keys = iter(jax.random.split(key, 8 + len(widths) * (2 * depth + 3)))
        n_time = 4 * widths[0]
        self.width = widths[0]
        self.time = [
            eqx.nn.Linear(widths[0], n_time, key=next(keys)),
            eqx.nn.Linear(n_time, n_time, key=next(keys)),
        ]
        self.label = None if classes is None else eqx.nn.Embedding(classes + 1, n_time, key=next(keys))
        self.stem = Conv(channels, widths[0], 3, next(keys))
        self.down, self.shrink, kept, now = [], [], [widths[0]], widths[0]
        for i, w in enumerate(widths):
            blocks = []
            for _ in range(depth):
                blocks.append(Block(now, w, n_time, next(keys)))
                now = w
                kept.append(w)
            self.down.append(blocks)
            if i < len(widths) - 1:
                self.shrink.append(Conv(w, w, 3, next(keys), stride=2))
                kept.append(w)
        self.middle = (
            Block(now, now, n_time, next(keys)),
            Attention(now, next(keys)),
            Block(now, now, n_time, next(keys)),
        )
        self.up = []
        for w in reversed(widths):
            blocks = []
            for _ in range(depth + 1):
                blocks.append(Block(now + kept.pop(), w, n_time, next(keys)))
                now = w
            self.up.append(blocks)
        self.norm = norm(now)
        self.head = zeroed(Conv(now, channels, 3, next(keys)))

    def __call__(self, x, clock, label=None):
        time = self.time[1](jax.nn.silu(self.time[0](embedded(clock, self.width))))
        if self.label is not None:
            time = time + self.label(jnp.asarray(self.label.num_embeddings - 1 if label is None else label))
        time = jax.nn.silu(time)
        h = self.stem(x)
        kept = [h]
        for i, blocks in enumerate(self.down):
            for block in blocks:
                h = block(h, time)
                kept.append(h)
            if i < len(self.shrink):
                h = self.shrink[i](h)
                kept.append(h)
        first, attention, second = self.middle
        h = second(attention(first(h, time)), time)
        for blocks in self.up:
            for block in blocks:
                beside = kept.pop()
                if h.shape[1:] != beside.shape[1:]:
                    h = grown(h, beside.shape[1:])
                h = block(jnp.concatenate([h, beside]), time)
        return self.head(jax.nn.silu(self.norm(h)))


def grown(x, shape: tuple[int, int]):
    """x (channel, h, w) at twice its size, cut to `shape`: the nearest place."""
    x = jnp.repeat(jnp.repeat(x, 2, axis=1), 2, axis=2)
    return x[:, : shape[0], : shape[1]]
