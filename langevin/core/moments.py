r"""Streaming moments of many chains: means, variances, R̂ and ESS without storing draws.

Blocks of draws are merged by Chan, Golub & LeVeque (1983). With m chains of n draws, chain means x̄_c and variances
s²_c,

    R̂² = ((n − 1)/n · W + B/n) / W,     W = mean s²_c,   B/n = var x̄_c        (Gelman & Rubin 1992),

and, by batch means of b draws a block, ESS = m n · s² / (b · var of block means), s² the pooled variance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Moments(NamedTuple):
    """Running sums over draws; every array is (chain, …).

    count: draws so far. mean, square: mean and Σ(x − mean)². blocks: how many blocks. between: Σ over blocks of
    (block mean − mean)², each block weighted by its draws.
    """

    count: int  # type: ignore[assignment]
    mean: np.ndarray
    square: np.ndarray
    blocks: int
    between: np.ndarray


def first(x: np.ndarray) -> Moments:
    """Moments of one block (chain, draw, …)."""
    x = np.asarray(x, np.float64)
    mean = x.mean(1)
    return Moments(x.shape[1], mean, ((x - mean[:, None]) ** 2).sum(1), 1, np.zeros_like(mean))


def merge(a: Moments | None, b: Moments) -> Moments:
    """The moments of both stretches of draws."""
    if a is None:
        return b
    n = a.count + b.count
    gap = b.mean - a.mean
    spread = gap**2 * (a.count * b.count / n)
    return Moments(
        n,
        a.mean + gap * (b.count / n),
        a.square + b.square + spread,
        a.blocks + b.blocks,
        a.between + b.between + spread,
    )


def variance(m: Moments) -> np.ndarray:
    """Variance over draws and chains, chains pooled within."""
    return m.square.sum(0) / (m.mean.shape[0] * max(m.count - 1, 1))


def rhat(m: Moments) -> np.ndarray:
    """Potential scale reduction of each quantity; NaN for one chain or a constant."""
    within = (m.square / max(m.count - 1, 1)).mean(0)
    if m.mean.shape[0] < 2 or m.count < 2:
        return np.full(within.shape, np.nan)
    between = m.mean.var(0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((m.count - 1) / m.count + between / within)


def ess(m: Moments) -> np.ndarray:
    """Effective sample size of the mean by batch means; NaN before the second block."""
    chains = m.mean.shape[0]
    if m.blocks < 2:
        return np.full(m.mean.shape[1:], np.nan)
    # Σ over blocks of b (block mean − mean)² / (blocks − 1) estimates b · var(block mean), the long-run variance
    long_run = m.between.sum(0) / (chains * (m.blocks - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.minimum(chains * m.count * variance(m) / long_run, chains * m.count)
