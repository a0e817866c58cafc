r"""How far draws are from the trusted draws, and what they cost.

For every value x of a model, with mean m, deviation s and second moment q ± r (deviation of x²) of the trusted draws,

    bias = max over values of |mean(x) − m|/s and |mean(x²) − q|/r.

An exact sampler shows a bias too, from the Monte Carlo error of both sets of draws. `noise` is its rough size,
√(2 ln 2k) · √(1/ESS + 1/10,000) with k values (the maximum of 2k errors), and a bias below it says nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from langevin.diagnostics import ess


class Score(NamedTuple):
    """bias and noise in deviations; ess: the least bulk ESS over values, all chains together."""

    bias: float
    noise: float
    ess: float


def score(values: np.ndarray, trusted: np.ndarray) -> Score:
    """Of values (chain, draw, k) against trusted draws (n, k)."""
    flat = np.asarray(values, float).reshape(-1, values.shape[-1])
    off = [_off(flat, trusted), _off(flat**2, trusted**2)]
    least = float(np.nanmin(ess(values)))
    noise = np.sqrt(2 * np.log(2 * flat.shape[1]) * (1 / least + 1 / len(trusted)))
    return Score(float(np.max(off)), float(noise), least)


def _off(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.abs(x.mean(axis=0) - y.mean(axis=0)) / y.std(axis=0)
