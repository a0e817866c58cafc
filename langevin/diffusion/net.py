"""A network of points for diffusions: an MLP that sees x and the time as sines and cosines."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from langevin.nets.mlp import MLP


class TimeMLP(eqx.Module):
    """(x, clock) → (n_out,), with SiLU between layers; the output starts small."""

    net: MLP
    waves: int = eqx.field(static=True)

    def __init__(
        self,
        n_in: int,
        n_out: int,
        key: jax.Array,
        hidden: tuple[int, ...] = (128, 128, 128),
        *,
        waves: int = 4,
        activation: Callable = jax.nn.silu,
    ):
        """hidden: widths. waves: sines and cosines of the clock, of 1, 2, 4, … half turns a unit."""
        net = MLP((n_in + 1 + 2 * waves, *hidden, n_out), key, activation)
        last = net.layers[-1]
        self.net = eqx.tree_at(lambda n: n.layers[-1].weight, net, 0.1 * last.weight)
        self.waves = waves

    def __call__(self, x, clock):
        clock = jnp.asarray(clock)
        angle = jnp.pi * clock * 2.0 ** jnp.arange(self.waves)
        return self.net(jnp.concatenate([x, clock[None], jnp.sin(angle), jnp.cos(angle)]))
