r"""The temperature of a chain along the directions in which mini-batch gradients are noisiest.

For a distribution ∝ p^(1/T) and any direction, integration by parts gives the virial theorem

    T = −E[(a − E a) b],      a = U_jᵀ D⁻¹ θ,   b = U_jᵀ D ∇ log p(θ),

and ∇ log p may be an estimate on a batch that has not moved the chain yet, as the one in its state is. Noise that is
not isotropic heats the directions U_j where it is strong (`samplers.smile`), so T_j ≠ 1 there says that scale or noise
of the kernel are wrong, or that the chain has not arrived. U and D are those of the kernel's own LowRankMetric
(`tune.whiten`, `tune.fisher`), every chain with its own.

References
----------
Clausius (1870), On a mechanical theorem applicable to heat.
Sommer, Robnik, Rügamer et al. (2026), Can microcanonical Langevin dynamics leverage mini-batch gradient noise?
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from langevin.core.advance import MAPPED, advance
from langevin.core.kernel import PerChain
from langevin.core.types import Key, State
from langevin.dynamics.mass import LowRankMetric
from langevin.tune.warm_start import nothing


class VirialTemperature(NamedTuple):
    """The temperature along each direction: mean over chains, its standard error, and the states the chains got to."""

    temperature: np.ndarray
    stderr: np.ndarray
    states: State


def virial_temperature(
    key: Key, kernel: PerChain, target: Any, states: State, *, draws: int = 200, thin: int = 20
) -> VirialTemperature:
    """T along the directions of the kernel's metric, hottest noise last, from `draws` looks `thin` steps apart."""
    if not isinstance(kernel, PerChain) or not isinstance(kernel.kernel.metric, LowRankMetric):
        raise TypeError("virial_temperature: the kernel must be one that `whiten` or `fisher` tuned: a LowRankMetric.")
    metric = kernel.kernel.metric
    if draws < 10:
        raise ValueError(f"virial_temperature: draws is {draws}; take 10 or more, for every chain needs its own mean.")
    seen = []
    for k in jax.random.split(key, draws):
        states = advance(k, kernel, target, states, length=1, thin=thin, collect=nothing).states
        seen.append(jax.device_get(_along(metric, states)))
    a, b = (np.stack(u).astype(np.float64) for u in zip(*seen, strict=True))
    # the mean of a chain's own draws takes 1/draws of T away, more where they are correlated
    each = -np.mean((a - a.mean(0)) * b, axis=0)
    return VirialTemperature(each.mean(0), each.std(0, ddof=1) / np.sqrt(len(each)), states)


@jax.jit
def _along(metric: LowRankMetric, states: State):
    """a and b of every chain, (chain, k) each."""

    def one(metric, state):
        flat = lambda tree: ravel_pytree(tree)[0]
        D, U = flat(metric.scale), metric.vectors
        return U.T @ (flat(state.position) / D), U.T @ (D * flat(state.eval.grad))

    return jax.vmap(one, (0, MAPPED))(metric, states)
