r"""Encoders and decoders: dense, as in the papers on MNIST (784-200-200-50), and convolutional.

`dense` and `convolutional` give a `LatentModel`, an `Encoder` and the weights to begin with. Any Equinox module serves:
a decoder is called as net(z) or net(z, c), an encoder as net(x) or net(x, c) and gives (2, latent), mean and log
standard deviation. Weights begin uniform in ±1/√fan_in, as in the code of the papers; the bias of the decoder's output
may begin at the logits of the mean image (Burda, Grosse & Salakhutdinov 2016).

References
----------
Burda, Grosse & Salakhutdinov (2016), Importance weighted autoencoders, §5.
Zhang, Hsu, Li, Finn & Grosse (2021), Differentiable annealed importance sampling, §6.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from langevin.core.types import Key, PyTree
from langevin.nets.convolution import Conv
from langevin.nets.mlp import MLP
from langevin.vae.likelihoods import Bernoulli, Categorical, DiscretizedLogistic, Gaussian
from langevin.vae.model import Encoder, LatentModel


class Nets(NamedTuple):
    """model and encoder, and the weights {"decoder", "encoder"} they begin with."""

    model: LatentModel
    encoder: Encoder
    weights: PyTree


class DenseDecoder(eqx.Module):
    """z, and perhaps c, to the numbers the likelihood reads."""

    net: MLP
    shape: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, z, *condition):
        return self.net(_joined(z, *condition)).reshape(self.shape)


class DenseEncoder(eqx.Module):
    """x, and perhaps c, to mean and log standard deviation of z."""

    net: MLP
    latent: int = eqx.field(static=True)

    def __call__(self, x, *condition):
        return self.net(_joined(x, *condition)).reshape(2, self.latent)


class ConvolutionalEncoder(eqx.Module):
    """Convolutions of stride 2, then a dense layer; c joins at the dense layer."""

    layers: list[Conv]
    last: MLP
    latent: int = eqx.field(static=True)

    def __call__(self, x, *condition):
        for layer in self.layers:
            x = jax.nn.silu(layer(x))
        return self.last(_joined(x, *condition)).reshape(2, self.latent)


class ConvolutionalDecoder(eqx.Module):
    """A dense layer to a small image, then enlargements, each with a convolution."""

    first: MLP
    layers: list[Conv]
    small: tuple[int, ...] = eqx.field(static=True)
    sizes: tuple[tuple[int, int], ...] = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)
    levels: int = eqx.field(static=True)

    def __call__(self, z, *condition):
        x = jax.nn.silu(self.first(_joined(z, *condition))).reshape(self.small)
        for i, (layer, (height, width)) in enumerate(zip(self.layers, self.sizes, strict=True)):
            x = jnp.repeat(jnp.repeat(x, 2, axis=1), 2, axis=2)[:, :height, :width]
            x = layer(x)
            x = jax.nn.silu(x) if i < len(self.layers) - 1 else x
        if not self.levels:
            return x.reshape(self.shape)
        # channels of the convolution are (channel, level); a likelihood of classes has levels last
        return jnp.moveaxis(x.reshape(-1, self.levels, *x.shape[1:]), 1, -1)


def dense(
    key: Key,
    shape: Sequence[int],
    *,
    latent: int = 50,
    hidden: Sequence[int] = (200, 200),
    likelihood: Any = None,
    condition: int = 0,
    activation: Callable = jnp.tanh,
    mean: Any = None,
) -> Nets:
    """Multilayer perceptrons for examples of this shape.

    likelihood: Bernoulli() by default.
    condition: how many numbers a condition has; 0 for none.
    mean: the mean example, where the decoder's output begins (Bernoulli alone).
    """
    likelihood = Bernoulli() if likelihood is None else likelihood
    check_sizes("dense", latent, hidden)
    out, size = output_shape(likelihood, shape), math.prod(shape)
    k_decoder, k_encoder = jax.random.split(key)
    decoder = _mlp(k_decoder, (latent + condition, *hidden, math.prod(out)), activation)
    encoder = _mlp(k_encoder, (size + condition, *hidden[::-1], 2 * latent), activation)
    decoder = _begin_at(decoder, likelihood, mean)
    return as_nets(DenseDecoder(decoder, out), DenseEncoder(encoder, latent), likelihood, latent)


def convolutional(
    key: Key,
    shape: Sequence[int],
    *,
    latent: int = 32,
    channels: Sequence[int] = (32, 64),
    likelihood: Any = None,
    condition: int = 0,
) -> Nets:
    """Nets for images (channel, height, width), whose size halves at every layer of the encoder."""
    likelihood = Bernoulli() if likelihood is None else likelihood
    if len(shape) != 3:
        raise ValueError(f"convolutional: an example has shape {tuple(shape)}; it must be (channel, height, width).")
    check_sizes("convolutional", latent, channels)
    out = output_shape(likelihood, shape)
    keys = iter(jax.random.split(key, 2 * len(channels) + 2))
    places = [tuple(shape[1:])]
    encoder, before = [], shape[0]
    for many in channels:
        encoder.append(Conv(before, many, 3, next(keys), stride=2))
        places.append(tuple(-(-n // 2) for n in places[-1]))
        before = many
    small = (channels[-1], *places[-1])
    last = _mlp(next(keys), (math.prod(small) + condition, 2 * latent))
    first = _mlp(next(keys), (latent + condition, math.prod(small)))
    wide = [*channels[::-1][1:], math.prod(out) // math.prod(shape[1:])]
    decoder, before = [], channels[-1]
    for many in wide:
        decoder.append(Conv(before, many, 3, next(keys)))
        before = many
    levels = likelihood.levels if isinstance(likelihood, Categorical) else 0
    up = ConvolutionalDecoder(first, decoder, small, tuple(places[::-1][1:]), out, levels)
    return as_nets(up, ConvolutionalEncoder(encoder, last, latent), likelihood, latent)


def as_nets(decoder: eqx.Module, encoder: eqx.Module, likelihood: Any, latent: int) -> Nets:
    """Two Equinox modules as model, encoder and weights."""
    theta, decoder = eqx.partition(decoder, eqx.is_inexact_array)
    phi, encoder = eqx.partition(encoder, eqx.is_inexact_array)
    return Nets(LatentModel(decoder, likelihood, latent), Encoder(encoder), {"decoder": theta, "encoder": phi})


def check_sizes(who: str, latent: int, widths: Sequence[int]) -> None:
    if min(latent, *widths, 1) < 1:
        raise ValueError(
            f"{who}: latent is {latent} and the layers have {tuple(widths)} units; each must be 1 or more."
        )


def output_shape(likelihood: Any, shape: Sequence[int]) -> tuple[int, ...]:
    """What a decoder must give for examples of this shape."""
    if isinstance(likelihood, Categorical):
        return (*shape, likelihood.levels)
    pair = isinstance(likelihood, DiscretizedLogistic) or (
        isinstance(likelihood, Gaussian) and likelihood.scale is None
    )
    return (2, *shape) if pair else tuple(shape)


def _joined(x, *condition):
    return jnp.concatenate([x.ravel(), *(jnp.ravel(c) for c in condition)]) if condition else x.ravel()


def _mlp(key, sizes: Sequence[int], activation: Callable = jax.nn.relu) -> MLP:
    """Weights and biases uniform in ±1/√fan_in."""
    k_net, k_weights = jax.random.split(key)
    net, layers = MLP(sizes, k_net, activation), []
    for layer, k in zip(net.layers, jax.random.split(k_weights, len(net.layers)), strict=True):
        k_weight, k_bias = jax.random.split(k)
        far = 1 / math.sqrt(layer.weight.shape[0])
        draw = lambda k, u, far=far: jax.random.uniform(k, u.shape, u.dtype, -far, far)
        parts = draw(k_weight, layer.weight), draw(k_bias, layer.bias)
        layers.append(eqx.tree_at(lambda u: (u.weight, u.bias), layer, parts))
    return eqx.tree_at(lambda u: u.layers, net, layers)


def _begin_at(net: MLP, likelihood: Any, mean: Any) -> MLP:
    if mean is None:
        return net
    if not isinstance(likelihood, Bernoulli):
        raise ValueError(f"dense: `mean` is for Bernoulli; the likelihood is {type(likelihood).__name__}.")
    p = np.clip(np.asarray(mean, np.float64).ravel(), 1e-3, 1 - 1e-3)
    bias = jnp.asarray(np.log(p / (1 - p)), jnp.float32)
    return eqx.tree_at(lambda u: u.layers[-1].bias, net, bias)
