"""Quantiles of many distributions at once, from their distribution functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

CLOSE, STEPS = 1e-10, 100  # of the probit of a quantile


def solve(cdf: Callable[[np.ndarray], np.ndarray], p: float, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Where a distribution function is p, between low and high (n,): regula falsi (Illinois) on its probit, which is
    nearly linear, with a bisection at every third step. A row stops by itself, so that it does not depend on others.
    """
    want = ndtri(p)
    off = lambda x: ndtri(np.clip(cdf(x), 1e-300, 1 - 1e-16)) - want
    at_low, at_high = off(low), off(high)
    x = np.where(np.abs(at_low) < np.abs(at_high), low, high)
    done = (np.minimum(np.abs(at_low), np.abs(at_high)) < CLOSE) | (low >= high)
    side = np.zeros(x.shape, int)
    for step in range(STEPS):
        if done.all():
            break
        slope = np.where(at_high > at_low, at_high - at_low, 1.0)
        new = (low + high) / 2 if step % 3 == 2 else np.clip(high - at_high * (high - low) / slope, low, high)
        gap = off(new)
        x = np.where(done, x, new)
        done |= (np.abs(gap) < CLOSE) | (high - low <= 4 * np.spacing(np.abs(new)))
        below = gap < 0
        at_high = np.where(below, np.where(side < 0, at_high / 2, at_high), gap)
        at_low = np.where(below, gap, np.where(side > 0, at_low / 2, at_low))
        low, high, side = np.where(below, new, low), np.where(below, high, new), np.where(below, -1, 1)
    return x
