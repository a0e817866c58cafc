r"""A metric from the gradients of single examples: the stiffest directions of every chain's neighbourhood, shortened.

At a chain's position let g_i be the gradient on example i alone, scaled to all N (as a batch of one is), D² the
variance of the prior, and λ_j, U_j the top k eigenpairs of the Fisher matrix

    F = D Cov(g_i) D / N,      S = D (I + U(Λ − I)Uᵀ),      Λ_j = (1 + λ_j/κ)^−½.

With κ = 1 and all directions S Sᵀ is the covariance of the Laplace approximation. A trained network's neighbourhood is
narrow and curved, so that this scale is far too short once the chain moves away; κ > 1 shortens only directions stiffer
than κ times the prior, and those less. Directions are found by subspace iteration on `examples` examples drawn anew,
beginning from those of the LowRankMetric that the kernel has, if it has one.

References
----------
Girolami & Calderhead (2011), Riemann manifold Langevin and Hamiltonian Monte Carlo methods, §4.1.
Halko, Martinsson & Tropp (2011), Finding structure with randomness, alg. 4.4 (subspace iteration).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree

from langevin.core import sharding, tree
from langevin.core.advance import MAPPED, chains_of
from langevin.core.kernel import PerChain, replace, spread
from langevin.core.target import HasLogPrior, HasPrecision
from langevin.core.types import Key, State
from langevin.dynamics.mass import LowRankMetric
from langevin.tune.positions import tuner
from langevin.tune.trajectory import needs

TURNS = 3  # of the subspace iteration from nowhere; one is enough from the last round's directions
TOGETHER = 64  # examples whose gradients are found at once


@tuner
def fisher(
    key, kernel, target, states, *, rank: int = 64, examples: int = 256, damping: float = 1000.0
) -> tuple[PerChain, State]:
    """The kernel with every chain's own LowRankMetric, and the states unchanged. It may be a PerChain already."""
    needs("fisher", kernel.kernel if isinstance(kernel, PerChain) else kernel, ("metric",))
    chains = chains_of(states)
    d = tree.size(states.position) // chains
    if not isinstance(kernel, PerChain):
        kernel = PerChain(spread(kernel, chains))
    rank = min(rank, d - 1, examples - 1)
    before = kernel.kernel.metric
    known = isinstance(before, LowRankMetric) and before.vectors.shape == (chains, d, rank)
    vectors, turns = (before.vectors, 1) if known else (_random_directions(chains, d, rank), TURNS)
    # on one device: XLA's CPU client may wait for itself where several decompose matrices in one program
    here = sharding.gathered((key, target, states, np.float32(damping), vectors, np.int32(turns)))
    metric = estimate_metric(*here, examples=examples)
    return PerChain(replace(kernel.kernel, metric=sharding.beside(metric, states))), states


def _random_directions(chains: int, d: int, rank: int) -> np.ndarray:
    """Random orthonormal directions to start from, the same for every chain."""
    random = np.random.default_rng(0).standard_normal((d, rank), np.float32)
    return np.tile(np.linalg.qr(random)[0], (chains, 1, 1))


@partial(jax.jit, static_argnames="examples")
def estimate_metric(key: Key, target: Any, states: State, damping, vectors, turns, *, examples: int) -> LowRankMetric:
    """The metric of every chain from that many turns of subspace iteration on directions (chain, d, k)."""

    def one(key, state, U):
        impl = jax.random.key_impl(key)
        unravel = ravel_pytree(state.position)[1]
        tau = scale(target, state.position)
        words = jax.random.key_data(jax.random.split(key, examples))
        x = lax.map(lambda w: alone(jax.random.wrap_key_data(w, impl=impl), target, state), words, batch_size=TOGETHER)
        x = (x - jnp.mean(x, 0, keepdims=True)) * tau[None] / jnp.sqrt((examples - 1.0) * target.n)
        U = lax.fori_loop(0, turns, lambda _, U: jnp.linalg.qr(x.T @ (x @ U))[0], U.astype(x.dtype))
        y = x @ U
        values, turn = jnp.linalg.eigh(y.T @ y)
        stretch = lax.rsqrt(1 + jnp.maximum(values, 0.0) / damping)
        return LowRankMetric(unravel(tau), U @ turn, stretch)

    return jax.vmap(one, (0, MAPPED, 0))(jax.random.split(key, chains_of(states)), states, vectors)


def alone(key, target, state):
    """The gradient on one example."""
    share = 1.0 / (target.batch or target.n)
    batch, _ = target.draw(key, state.feed, fraction=min(share, 1 - 1e-6))
    return ravel_pytree(target.evaluate(batch, state.position).grad)[0]


def precision(target, position):
    """The prior's curvature along every coordinate, flat; exact where the prior is independent.

    A prior that says its own precision is asked for it: of densities with heavy tails or a corner the curvature is 0
    or negative where they are as wide as elsewhere.
    """
    flat, unravel = ravel_pytree(position)
    if isinstance(target, HasLogPrior) and isinstance(target.log_prior, HasPrecision):
        return ravel_pytree(target.log_prior.precision(position))[0]
    grad = jax.grad(lambda v: target.prior(unravel(v)))
    return jnp.maximum(-jax.jvp(grad, (flat,), (jnp.ones_like(flat),))[1], 0.0)


def scale(target, position):
    """The prior's standard deviation of every coordinate, flat, as its curvature has it."""
    return lax.rsqrt(jnp.maximum(precision(target, position), 1e-6))
