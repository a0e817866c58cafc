r"""Normalizing flows over all weights, by FlowJAX: bijections of a standard normal, scaled and moved to the start.

    θ = μ + σ∘B_φ(ε),      log q(θ) = log N(ε; 0, I) − log |∂B/∂ε| − Σ log σ.

B is a chain of affine coupling layers between permutations. φ holds the arrays of B relative to the first ones, in
units of 0.03: networks want a step of Adam that is smaller than that of means and scales by as much. The extra `flows`
installs FlowJAX.

References
----------
Rezende & Mohamed (2015), Variational inference with normalizing flows.
Dinh, Sohl-Dickstein & Bengio (2017), Density estimation using Real NVP.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from langevin.core import tree
from langevin.core.record import positive, record, static
from langevin.core.types import PyTree
from langevin.vi.families.mean_field import fill_log
from langevin.vi.family import total

PACE = 0.03


class Flowed(NamedTuple):
    """φ: place and scale, and how far the arrays of the bijection are from the first ones."""

    mean: PyTree
    log_scale: PyTree
    arrays: PyTree


@record
class Flow:
    """A coupling flow over the position as one vector.

    scale: standard deviation of every coordinate at first.
    layers: coupling layers.
    width: hidden units of the networks in them.
    """

    scale: float = positive(default=0.02)
    layers: int = static(default=4)
    width: int = static(default=32)

    def init(self, key, position):
        d = tree.size(position)
        if d < 2:
            raise ValueError("Flow: a coupling flow needs two coordinates or more; take MeanField for one.")
        arrays, _ = eqx.partition(self._built(d), eqx.is_inexact_array)
        # not the same for every fit: a little noise, around a bijection that is near the identity
        flat, unravel = ravel_pytree(arrays)
        apart = unravel(1e-3 / PACE * jax.random.normal(key, flat.shape))
        return Flowed(position, fill_log(position, self.scale), apart)

    def sample(self, key, params):
        unit = self._distribution(params).sample(key)
        return jax.tree.map(
            lambda m, s, u: m + jnp.exp(s) * u, params.mean, params.log_scale, self._as_tree(params, unit)
        )

    def log_prob(self, params, position):
        unit = jax.tree.map(lambda x, m, s: (x - m) * jnp.exp(-s), position, params.mean, params.log_scale)
        value = self._distribution(params).log_prob(ravel_pytree(unit)[0])
        return value - total(jax.tree.map(jnp.sum, params.log_scale))

    def _as_tree(self, params, flat):
        return ravel_pytree(params.mean)[1](flat)

    def _distribution(self, params) -> Any:
        first, fixed = eqx.partition(self._built(tree.size(params.mean)), eqx.is_inexact_array)
        return eqx.combine(tree.axpy(PACE, params.arrays, first), fixed)

    def _built(self, d: int) -> Any:
        return build(d, self.layers, self.width)


@lru_cache(maxsize=8)
def build(d: int, layers: int, width: int) -> Any:
    """The flow with its first arrays; its permutations are the same for every fit."""
    try:
        from flowjax.distributions import StandardNormal
        from flowjax.flows import coupling_flow
    except ImportError:
        raise ImportError("Flow needs FlowJAX; install it with pip install 'langevin[flows]'.") from None
    with jax.ensure_compile_time_eval(), jax.disable_jit():  # once, with values, wherever it is first asked for
        unit: Any = StandardNormal
        how: dict[str, Any] = dict(base_dist=unit((d,)), flow_layers=layers, nn_width=width)
        return coupling_flow(jax.random.key(0), **how)
