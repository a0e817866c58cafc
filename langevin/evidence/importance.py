r"""Importance sampling: weights p̃/q at draws of the base; their mean is unbiased, and SUMO makes its log so.

    importance   log (1/S) Σ_s w_s,   w = p̃(θ)/q(θ), θ ~ q:  the bound of importance-weighted autoencoders with S
                 particles; it rises to log Z with S, from below on average, and the gap is about Var(w/Z)/2S
    sumo         IW_m + Σ_{j=1}^{T} (IW_{m+j} − IW_{m+j−1})/P(T ≥ j),   IW_k = log (1/k) Σ_{s ≤ k} w_s

The mean of a SUMO draw is log Z itself. T is a random number of further particles: P(T ≥ j) = 1/j up to j = 80 and
falls by a tenth a particle beyond, so that the sum can be paid for, 5 more particles on average. SUMO is no bound. Its
terms, of size 1/(m + j), are divided by P(T ≥ j), so where weights vary much its variance is very large or infinite,
and its standard error says less than it seems. A larger m makes it smaller.

References
----------
Burda, Grosse & Salakhutdinov (2016), Importance weighted autoencoders, eq. (8), theorem 1.
Luo et al. (2020), SUMO: unbiased estimation of log marginal probability for latent variable models (P(T ≥ j) too).
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from langevin.core.types import Key, PyTree
from langevin.evidence.base import Base, began, examples
from langevin.evidence.types import Evidence
from langevin.evidence.weights import unbiased

KNEE, DECAY = 80, 0.9  # of P(T ≥ j)
BLOCK = 256  # positions looked at together


def importance(key: Key, target: Any, base: Base, *, particles: int = 1000) -> Evidence:
    """log Z by weights at draws of the base: unbiased-Z; it may be traced and differentiated."""
    log_w = log_ratios(target, base, began(key, base, target, particles))
    return unbiased(log_w, n_grad=particles, n_data=particles * examples(target))


def sumo(key: Key, target: Any, base: Base, *, draws: int = 1000, first: int = 5) -> Evidence:
    """log Z, unbiased, as a mean of `draws` randomly cut series: guarantee "none", for it is no bound.

    first: m, particles that every draw has.
    """
    if draws < 2 or first < 1:
        raise ValueError(f"sumo: draws is {draws} and first is {first}; take two draws or more, and first 1 or more.")
    k_more, k_draws = jax.random.split(key)
    more = further(np.asarray(jax.random.uniform(k_more, (draws,)), np.float64))
    total = int(more.sum()) + first * draws
    padded = -(-total // BLOCK) * BLOCK  # few shapes, so few compilations
    log_w = np.asarray(log_ratios(target, base, began(k_draws, base, target, padded)), np.float64)[:total]
    if np.isnan(log_w).any():
        raise ValueError(f"sumo: {int(np.isnan(log_w).sum())} of {total} log weights are NaN; look at the log density.")

    width = first + int(more.max())
    here = np.arange(width)[None] < first + more[:, None]
    table = np.full((draws, width), -np.inf)
    table[here] = log_w
    series = np.logaddexp.accumulate(table, axis=1) - np.log(np.arange(1, width + 1))[None]
    if not np.isfinite(series[:, first - 1]).all():
        raise ValueError(f"sumo: all of the first {first} weights of a draw are zero; take more (first=…).")
    steps = np.where(here[:, first:], np.diff(series[:, first - 1 :], axis=1), 0.0)
    value = series[:, first - 1] + (steps / tail(np.arange(1, width - first + 1))[None]).sum(1)
    how = dict(ess=draws, n_grad=total, n_data=total * examples(target), guarantee="none")
    return Evidence(np.asarray(value.mean()), value.std(ddof=1) / math.sqrt(draws), **how)


def tail(j: np.ndarray) -> np.ndarray:
    """P(T ≥ j), j = 1, 2, …: 1/j, and geometric beyond the knee."""
    return np.where(j <= KNEE, 1.0 / j, DECAY ** (j - KNEE) / KNEE)


def further(uniform: np.ndarray) -> np.ndarray:
    """T, by inversion: the largest j with P(T ≥ j) ≥ u, so that T is never 0."""
    near = np.floor(1.0 / np.maximum(uniform, 1.0 / KNEE))
    far = KNEE + np.floor(np.log(np.maximum(uniform, 1e-9) * KNEE) / math.log(DECAY))
    return np.where(uniform >= 1.0 / KNEE, near, far).astype(int)


@partial(jax.jit, static_argnames="n")
def drawn(key: Key, base: Base, n: int) -> PyTree:
    """n draws of the base, by one program."""
    return base.exact(key, n)


@jax.jit
def log_ratios(target: Any, base: Any, positions: PyTree) -> jax.Array:
    """log p̃ − log q at every position (draw, …)."""
    one = lambda x: jnp.asarray(target.log_density(x) - base.log_density(x))
    return lax.map(one, positions, batch_size=BLOCK)
