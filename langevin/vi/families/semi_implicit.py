r"""Semi-implicit distributions: a Gaussian whose mean a small network draws.

    ω ~ N(0, I),  θ | ω ~ N(μ + σ∘f_φ(ω), σ²),      q(θ) = ∫ N(θ; μ + σ∘f_φ(ω), σ²) N(ω) dω.

log q is not known; its estimate log 1/(J+1) Σ_j N(θ; μ + σ∘f_φ(ω_j), σ²), with the ω_0 that made θ among J others, is
on average above log q along its draws, so that the ELBO stays a lower bound, and rises to the ELBO of q as J → ∞. f_φ
is a network with one hidden layer, whose arrays φ holds in units of 0.1: networks want a step of Adam that is smaller
than that of means and scales by as much.

References
----------
Yin & Zhou (2018), Semi-implicit variational inference, eq. (8).
Chen, Li, Zhang & Li, Bayesian Computation in Deep Learning, §2.2.2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from langevin.core import noise, tree
from langevin.core.record import positive, record, static
from langevin.core.types import PyTree
from langevin.vi.families.mean_field import fill_log, log_normal

PACE = 0.1


class Hidden(NamedTuple):
    """Weights of f, ω ↦ tanh(ω W + b) V, in units of PACE."""

    first: jax.Array
    bias: jax.Array
    last: jax.Array


class Hyper(NamedTuple):
    """φ."""

    mean: PyTree
    log_scale: PyTree
    net: Hidden


@record
class SemiImplicit:
    """A Gaussian with a random mean.

    inputs: numbers in ω.
    width: hidden units of f.
    others: J.
    scale: σ at first.
    """

    inputs: int = static(default=10)
    width: int = static(default=50)
    others: int = static(default=20)
    scale: float = positive(default=0.02)

    def init(self, key, position):
        net = hidden(key, self.inputs, self.width, tree.size(position))
        return Hyper(position, fill_log(position, self.scale), net)

    def sample(self, key, params):
        k_mix, k_own = jax.random.split(key)
        return self._given(k_own, params, moved(params, noise.like(k_mix, jnp.zeros(self.inputs))))

    def joint(self, key, params):
        k_mix, k_own, k_others = jax.random.split(key, 3)
        first = noise.like(k_mix, jnp.zeros(self.inputs))
        center = moved(params, first)
        position = self._given(k_own, params, center)
        others = noise.like(k_others, jnp.zeros((self.others, self.inputs)))
        density = lambda center: log_normal(position, center, params.log_scale)
        every = jnp.append(jax.vmap(lambda w: density(moved(params, w)))(others), density(center))
        return position, jax.nn.logsumexp(every) - math.log(self.others + 1)

    def _given(self, key, params, center):
        own = jax.tree.map(lambda s, e: jnp.exp(s) * e, params.log_scale, noise.like(key, center))
        return tree.add(center, own)


def hidden(key, inputs: int, width: int, outputs: int) -> Hidden:
    """A network whose outputs have a scale of about 1."""
    k_first, k_bias, k_last = jax.random.split(key, 3)
    first = jax.random.normal(k_first, (inputs, width)) / math.sqrt(inputs)
    last = jax.random.normal(k_last, (width, outputs)) / math.sqrt(width)
    return Hidden(first / PACE, 0.1 / PACE * jax.random.normal(k_bias, (width,)), last / PACE)


def moved(params, w):
    """μ + σ∘f(ω)."""
    unit = ravel_pytree(params.mean)[1](said(params.net, w))
    return tree.add(params.mean, tree.mul(jax.tree.map(jnp.exp, params.log_scale), unit))


def said(net: Hidden, w):
    """f(ω)."""
    return PACE * jnp.tanh(PACE * (w @ net.first + net.bias)) @ net.last
