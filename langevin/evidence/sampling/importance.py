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

import jax
import numpy as np

from langevin.core.record import static
from langevin.evidence.base import BLOCK, draw_starts, log_ratios
from langevin.evidence.method import Method, method
from langevin.evidence.types import Evidence, cost
from langevin.evidence.weights import summarize

KNEE, DECAY = 80, 0.9  # of P(T ≥ j)


@method("importance")
class Importance(Method):
    """Importance sampling from the base: unbiased-Z; it may be traced and differentiated.

    particles: draws of the base.
    """

    particles: int = static(default=1000)
    minibatches = "ignored"

    def estimate_evidence(self, key, target, base, draws) -> Evidence:
        log_w = log_ratios(target, base, draw_starts(key, base, target, self.particles))
        return summarize(log_w, **cost(self.particles, target))


@method("sumo")
class SUMO(Method):
    """log Z without bias, as a mean of randomly cut series: guarantee "none", for it is no bound.

    draws: series.
    first: m, particles that every series has.
    """

    draws: int = static(default=1000)
    first: int = static(default=5)
    minibatches = "ignored"

    def __post_init__(self):
        if self.draws < 2 or self.first < 1:
            raise ValueError(
                f"sumo: draws is {self.draws} and first is {self.first}; take two draws or more, and first 1 or more."
            )

    def estimate_evidence(self, key, target, base, draws) -> Evidence:
        k_more, k_draws = jax.random.split(key)
        more = draw_lengths(np.asarray(jax.random.uniform(k_more, (self.draws,)), np.float64))
        total = int(more.sum()) + self.first * self.draws
        padded = -(-total // BLOCK) * BLOCK  # few shapes, so few compilations
        starts = draw_starts(k_draws, base, target, padded)
        log_w = np.asarray(log_ratios(target, base, starts), np.float64)[:total]
        bad = int(np.isnan(log_w).sum())
        if bad:
            raise ValueError(f"sumo: {bad} of {total} log weights are NaN; check the log density for NaN.")
        value = sum_series(log_w, more, self.first)
        error = value.std(ddof=1) / math.sqrt(self.draws)
        return Evidence(np.asarray(value.mean()), error, ess=self.draws, guarantee="none", **cost(total, target))


def sum_series(log_w: np.ndarray, more: np.ndarray, first: int) -> np.ndarray:
    """The value of every series, from the log weights of all of them in a row; more: T of each."""
    width = first + int(more.max())
    here = np.arange(width)[None] < first + more[:, None]
    table = np.full((len(more), width), -np.inf)
    table[here] = log_w
    series = np.logaddexp.accumulate(table, axis=1) - np.log(np.arange(1, width + 1))[None]
    if not np.isfinite(series[:, first - 1]).all():
        raise ValueError(f"sumo: all of the first {first} weights of a draw are zero; take more (first=…).")
    steps = np.where(here[:, first:], np.diff(series[:, first - 1 :], axis=1), 0.0)
    return series[:, first - 1] + (steps / tail(np.arange(1, width - first + 1))[None]).sum(1)


def tail(j: np.ndarray) -> np.ndarray:
    """P(T ≥ j), j = 1, 2, …: 1/j, and geometric beyond the knee."""
    return np.where(j <= KNEE, 1.0 / j, DECAY ** (j - KNEE) / KNEE)


def draw_lengths(uniform: np.ndarray) -> np.ndarray:
    """T, by inversion: the largest j with P(T ≥ j) ≥ u, so that T is never 0."""
    near = np.floor(1.0 / np.maximum(uniform, 1.0 / KNEE))
    far = KNEE + np.floor(np.log(np.maximum(uniform, 1e-9) * KNEE) / math.log(DECAY))
    return np.where(uniform >= 1.0 / KNEE, near, far).astype(int)
