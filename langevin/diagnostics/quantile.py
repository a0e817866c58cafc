"""Quantiles of many distributions at once, from their distribution functions.

Rows are solved each by itself: the steps of one do not depend on the others, and those that are done are left out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

CLOSE, STEPS = 1e-9, 200  # of the probit of a quantile
NEWTON = 12  # steps after which every other one halves the bracket
ROOT = np.sqrt(2 * np.pi)

Both = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
Reach = Callable[[np.ndarray, np.ndarray], np.ndarray]


def solve(both: Both, p: float, start: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Where a distribution function is p, between low and high (n,): Newton's method on its probit, nearly linear.

    both: (x, rows) → distribution function and density of these rows at x
    """
    want, x = ndtri(p), np.clip(start, low, high)
    low, high = low.copy(), high.copy()
    rows = np.flatnonzero(high > low)
    for step in range(STEPS):
        if not len(rows):
            break
        at = x[rows]
        reach, density = both(at, rows)
        z = ndtri(np.clip(reach, 1e-300, 1 - 1e-16))
        low[rows], high[rows] = np.where(z < want, at, low[rows]), np.where(z < want, high[rows], at)
        with np.errstate(all="ignore"):
            new = at - (z - want) * np.exp(-0.5 * z**2) / ROOT / density
        inside = (new > low[rows]) & (new < high[rows]) & (step < NEWTON or step % 2 == 0)
        new = np.where(inside, new, (low[rows] + high[rows]) / 2)
        open_ = (np.abs(z - want) > CLOSE) & (high[rows] - low[rows] > 4 * np.spacing(np.abs(at)))
        x[rows[open_]] = new[open_]
        rows = rows[open_]
    return x


def solve_whole(reach: Reach, p: float, start: np.ndarray) -> np.ndarray:
    """The smallest whole number from 0 up at which a distribution function is p or more.

    reach: (k, rows) → the distribution function of these rows at k
    """
    first = np.maximum(np.round(start), 0.0)
    enough = reach(first, np.arange(len(first))) >= p
    low, high = np.where(enough, -1.0, first), np.where(enough, first, np.inf)  # F(low) < p ≤ F(high)
    step = np.ones(len(first))
    rows = np.flatnonzero(high - low > 1)
    while len(rows):
        down, up = low[rows] < 0, np.isinf(high[rows])
        middle = np.floor((low[rows] + np.where(up, 0.0, high[rows])) / 2)
        at = np.where(up, low[rows] + step[rows], np.where(down, np.maximum(high[rows] - step[rows], 0.0), middle))
        below = reach(at, rows) < p
        low[rows], high[rows] = np.where(below, at, low[rows]), np.where(below, high[rows], at)
        step[rows] *= 2
        rows = rows[high[rows] - low[rows] > 1]
    return high
