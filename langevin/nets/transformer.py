r"""A small transformer that reads characters and says which comes next.

Pre-norm, causal, with learned positions: with z(x) = (x − mean x)/sd x over the width, and for every layer

    x ← x + attention(z(x)),      x ← x + W₂ gelu(W₁ z(x) + b₁) + b₂,      logits = W z(x) + b,

x beginning as the sum of the embeddings of character and place. Norms have no weights: those that follow them have
their scale and shift already. Characters enter as one-hot rows, so that the gradient of embeddings is a matrix product
and no scatter. Weights are drawn N(0, 1/fan_in), those that end a branch smaller by √(2 layers).

References
----------
Vaswani, Shazeer, Parmar et al. (2017), Attention is all you need, §3.
Radford, Wu, Child et al. (2019), Language models are unsupervised multitask learners, §2.3 (norms first; scaled ends).
"""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from langevin.nets.mlp import Dense


class Layer(eqx.Module):
    """Attention, then a dense net, each beside what it reads."""

    query: Dense
    gather: Dense
    up: Dense
    down: Dense
    heads: int = eqx.field(static=True)

    def __init__(self, width: int, heads: int, key: jax.Array, scale: float):
        keys = jax.random.split(key, 4)
        self.query, self.up = dense(width, 3 * width, keys[0]), dense(width, 4 * width, keys[1])
        self.gather, self.down = dense(width, width, keys[2], scale), dense(4 * width, width, keys[3], scale)
        self.heads = heads

    def __call__(self, x):
        x = x + self.gather(self.attended(normal(x)))
        return x + self.down(jax.nn.gelu(self.up(normal(x))))

    def attended(self, x):
        """What every place (place, width) gathers from itself and those before it."""
        n, width = x.shape
        q, k, v = jnp.moveaxis(self.query(x).reshape(n, 3, self.heads, width // self.heads), 1, 0)
        weight = jnp.einsum("ihc,jhc->hij", q, k) / math.sqrt(width // self.heads)
        past = jnp.tril(jnp.ones((n, n), bool))
        weight = jax.nn.softmax(jnp.where(past[None], weight, -jnp.inf), axis=-1)
        return jnp.einsum("hij,jhc->ihc", weight, v).reshape(n, width)


class Transformer(eqx.Module):
    """Characters (place,) ↦ logits of the next one (place, vocabulary), for up to `context` places."""

    embedding: jax.Array
    places: jax.Array
    layers: list[Layer]
    head: Dense

    def __init__(
        self, vocabulary: int, key: jax.Array, *, context: int = 128, width: int = 128, depth: int = 4, heads: int = 4
    ):
        if width % heads:
            raise ValueError(f"Transformer: a width of {width} does not split into {heads} heads.")
        k_embedding, k_places, k_head, *keys = jax.random.split(key, 3 + depth)
        self.embedding = jax.random.normal(k_embedding, (vocabulary, width)) / math.sqrt(vocabulary)
        self.places = jax.random.normal(k_places, (context, width)) / math.sqrt(context)
        self.layers = [Layer(width, heads, k, 1 / math.sqrt(2 * depth)) for k in keys]
        self.head = dense(width, vocabulary, k_head)

    def __call__(self, x):
        h = jax.nn.one_hot(x, len(self.embedding)) @ self.embedding + self.places[: len(x)]
        # layers are of one shape: a loop over them is compiled once
        layers = jax.tree.map(lambda *u: jnp.stack(u), *self.layers)
        h, _ = lax.scan(lambda h, layer: (layer(h), None), h, layers)
        return self.head(normal(h))


def dense(n_in: int, n_out: int, key: jax.Array, scale: float = 1.0) -> Dense:
    """A layer whose weights are N(0, scale²/n_in)."""
    layer = Dense(n_in, n_out, key)
    return eqx.tree_at(lambda u: u.weight, layer, layer.weight * (scale / math.sqrt(2)))


def normal(x):
    """Of mean zero and variance one over the last axis."""
    x = x - jnp.mean(x, axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(jnp.mean(x**2, axis=-1, keepdims=True) + 1e-5)
