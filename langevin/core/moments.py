r"""Moments of many chains: means, variances, R̂ and ESS without storing draws, and the ESS of stored ones.

Blocks of draws are merged by Chan, Golub & LeVeque (1983). With m chains of n draws, chain means x̄_c and variances
s²_c,

    R̂² = ((n − 1)/n · W + B/n) / W,     W = mean s²_c,   B/n = var x̄_c        (Gelman & Rubin 1992),

and, by batch means of b draws a block, ESS = m n · s² / (b · var of block means), s² the pooled variance.
`effective` has the draws, and sums their autocorrelations (Geyer 1992, §3.3; `diagnostics.convergence` has the
formulas).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

SMOOTH = (1, 3, 5, 9, 15, 25, 27, 45, 75, 81, 125)  # times a power of two: lengths of fast transforms


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


def effective(x: np.ndarray) -> np.ndarray:
    """Effective sample size of draws (chain, draw, quantity), of all chains together; NaN for a constant.

    By Geyer's initial monotone sequence, the autocovariances by FFT; it needs four draws a chain or more. One chain
    cannot disagree with others, and is judged by its own autocorrelation alone.
    """
    m, n = x.shape[:2]
    size = min(odd << ((2 * n - 1) // odd).bit_length() for odd in SMOOTH)  # zero padding: no wrap-around
    spectrum = np.fft.rfft(x - x.mean(axis=1, keepdims=True), n=size, axis=1)
    autocov = np.fft.irfft(np.abs(spectrum) ** 2, n=size, axis=1)[:, :n].mean(axis=0) / n
    var_plus = autocov[0] + (x.mean(axis=1).var(axis=0, ddof=1) if m > 1 else 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 of quantities that never change
        rho = 1 - (autocov[0] * n / (n - 1) - autocov) / var_plus
    rho[0] = 1

    even = rho[0 : n - 1 : 2]
    pair = even + rho[1:n:2]
    end = max(0, (n - 3) // 2)  # the sequence ends here, positive still or not
    negative = pair[: end + 1] <= 0
    stop = np.where(negative.any(axis=0), negative.argmax(axis=0), end)
    summed = np.arange(len(pair))[:, None] < stop
    tau = -1 + 2 * np.sum(np.minimum.accumulate(pair, axis=0), axis=0, where=summed)
    pair_stop, even_stop = (np.take_along_axis(a, stop[None], axis=0)[0] for a in (pair, even))
    tau += np.where((even_stop > 0) | (pair_stop > 0), even_stop, 0)
    tau = np.maximum(tau, 1 / np.log10(m * n))  # antithetic chains: no more than MN log₁₀(MN)
    return np.where(np.ptp(x, axis=(0, 1)) > 0, m * n / tau, np.nan)
