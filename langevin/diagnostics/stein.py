r"""Kernelised Stein discrepancy: how far draws are from a density known only by its score s = ∇log p.

For a radial kernel k(x, y) = φ(|x − y|²), with δ = x − y and q = |δ|²,

    u(x, y) = s(x)·s(y) φ + 2 φ′ (s(y) − s(x))·δ − 2 d φ′ − 4 q φ″,      KSD² = E u(x, y),

x and y independent draws: zero if they come from p, and for a suitable k only then. "imq" is φ = (1 + q/ℓ²)^−½, which
also sees what escapes to infinity, "rbf" is φ = exp(−q/2ℓ²). Over n draws the V-statistic averages all pairs (never
negative, biased upwards by E u(x, x)/n), the U-statistic leaves out x = y (unbiased).

The p-value is by the wild bootstrap: signs ε_i in Σ ε_i ε_j u(x_i, x_j) imitate the statistic under the null. For draws
that follow one another in a chain the signs flip with probability `flip` < ½ from one to the next, so that they are as
dependent as the draws. Pairs are taken in blocks of rows, so memory grows with n and not with n².

References
----------
Liu, Lee & Jordan (2016), A kernelized Stein discrepancy for goodness-of-fit tests, thm. 3.6, eq. (14).
Chwialkowski, Strathmann & Gretton (2016), A kernel test of goodness of fit, §3 (wild bootstrap).
Gorham & Mackey (2017), Measuring sample quality with kernels, thm. 8 (the inverse multiquadric).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

BLOCK = 256  # rows of pairs evaluated together


class Stein(NamedTuple):
    """The discrepancy, its square (of a U-statistic possibly below zero), and the p-value (NaN without a bootstrap)."""

    ksd: float
    squared: float
    pvalue: float


def ksd(draws, scores, *, kernel="imq", statistic="V", length=None, bootstrap: int = 0, key=None, flip=0.5) -> Stein:
    """KSD of draws (n, d) with scores ∇log p (n, d).

    length: ℓ, by default the median distance of a thousand draws. bootstrap: how many for the p-value; needs `key`.
    """
    x, s = jnp.asarray(draws, float), jnp.asarray(scores, float)
    if x.ndim != 2 or s.shape != x.shape or len(x) < 2:
        raise ValueError(f"ksd: draws have shape {x.shape} and scores {s.shape}; both must be (n, d) with n > 1.")
    if kernel not in RADIAL:
        raise ValueError(f"ksd: kernel is {kernel!r}; it must be {' or '.join(map(repr, RADIAL))}.")
    if statistic not in ("V", "U"):
        raise ValueError(f"ksd: statistic is {statistic!r}; it must be 'V' or 'U'.")
    n = len(x)
    length = median_distance(x) if length is None else length
    signs = np.ones((n, 1), np.float32)
    if bootstrap:
        k_first, k_flips = jax.random.split(key)
        first = jax.random.rademacher(k_first, (1, bootstrap), jnp.float32)
        flips = 1.0 - 2.0 * jax.random.bernoulli(k_flips, flip, (n - 1, bootstrap)).astype(jnp.float32)
        signs = np.concatenate([signs, np.cumprod(np.concatenate([first, flips]), axis=0)], axis=1)
    with jax.numpy_rank_promotion("allow"):
        total, diagonal = _sums(x, s, jnp.asarray(signs), jnp.asarray(length, float), kernel=kernel)
    total, diagonal = np.asarray(total, np.float64), float(diagonal)
    values = total / n**2 if statistic == "V" else (total - diagonal) / (n * (n - 1))
    pvalue = (1 + np.sum(values[1:] >= values[0])) / (1 + bootstrap) if bootstrap else np.nan
    return Stein(float(np.sqrt(max(values[0], 0.0))), float(values[0]), float(pvalue))


def median_distance(x, n: int = 1000) -> float:
    """The median of the distances between (up to) n of the draws."""
    x = np.asarray(x, np.float64)[:: max(1, len(x) // n)][:n]
    square = np.sum(x**2, axis=1)
    apart = square[:, None] + square[None] - 2.0 * x @ x.T
    return float(np.sqrt(max(np.median(apart[np.triu_indices(len(x), 1)]), 1e-12)))


def _imq(q, length):
    base = 1.0 + q / length**2
    return base**-0.5, -0.5 / length**2 * base**-1.5, 0.75 / length**4 * base**-2.5


def _rbf(q, length):
    value = jnp.exp(-0.5 * q / length**2)
    return value, -0.5 / length**2 * value, 0.25 / length**4 * value


RADIAL = {"imq": _imq, "rbf": _rbf}  # φ, φ′, φ″ at q


@partial(jax.jit, static_argnames=("kernel",))
def _sums(x, s, signs, length, *, kernel):
    """Σ_ij ε_i ε_j u(x_i, x_j) for every column of signs, and Σ_i u(x_i, x_i)."""
    n, d = x.shape
    rows = -(-n // BLOCK) * BLOCK
    padded = lambda u: jnp.pad(u, ((0, rows - n), (0, 0))).reshape(-1, min(BLOCK, rows), u.shape[1])

    def block(part):
        xi, si, ei = part
        q = jnp.maximum(jnp.sum(xi**2, 1)[:, None] + jnp.sum(x**2, 1)[None] - 2.0 * xi @ x.T, 0.0)
        value, first, second = RADIAL[kernel](q, length)
        # (s_j − s_i)·(x_i − x_j)
        cross = xi @ s.T - jnp.sum(x * s, 1)[None] - jnp.sum(xi * si, 1)[:, None] + si @ x.T
        u = si @ s.T * value + 2.0 * first * cross - 2.0 * d * first - 4.0 * q * second
        return jnp.sum(ei * (u @ signs), axis=0)

    # padded rows have signs of 0
    total = jnp.sum(jax.lax.map(block, (padded(x), padded(s), padded(signs))), axis=0)
    value, first, _ = RADIAL[kernel](jnp.zeros(()), length)
    return total, jnp.sum(jnp.sum(s**2, 1) * value - 2.0 * d * first)
