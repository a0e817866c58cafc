r"""Fréchet and kernel distances between features of two sets of images.

    FFD   |μ₁ − μ₂|² + tr(C₁ + C₂ − 2 (C₁^½ C₂ C₁^½)^½), of the features' means and covariances
    KFD   unbiased MMD² with k(a, b) = (aᵀb/d + 1)³, mean and standard error over subsets

It is never called FID: the features are those of a net this project trained (`langevin_lab.features`), whose hash is in
the metric's name, and values compare only with values of the same net. FFD is biased upwards by chance, about as 1/n:
it is to be read beside its floor, the distance between two halves of the data, and `ffd_limit` extrapolates to n = ∞.

References
----------
Heusel, Ramsauer, Unterthiner, Nessler & Hochreiter (2017), GANs trained by a two time-scale update rule, eq. (6).
Bińkowski, Sutherland, Arbel & Gretton (2018), Demystifying MMD GANs, §4 (the cubic kernel, unbiased).
Chong & Forsyth (2020), Effectively unbiased FID and Inception score, §3 (extrapolation).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Estimate(NamedTuple):
    """value, and its standard error."""

    value: float
    stderr: float


def ffd(a, b) -> float:
    """The Fréchet distance of features a (n, d) and b (m, d)."""
    a, b = _two(a, b)
    mean = np.sum((a.mean(0) - b.mean(0)) ** 2)
    ca, cb = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    value, vector = np.linalg.eigh(ca)
    root = (vector * np.sqrt(np.maximum(value, 0))) @ vector.T
    cross = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ cb @ root), 0)).sum()
    return float(mean + np.trace(ca) + np.trace(cb) - 2 * cross)


def ffd_limit(a, b, *, parts: int = 8, seed: int = 0) -> float:
    """FFD extrapolated to infinitely many points: a line in 1/n through subsets of b of half to full size."""
    a, b = _two(a, b)
    draw = np.random.default_rng(seed)
    sizes = np.linspace(len(b) // 2, len(b), parts).astype(int)
    value = [ffd(a, b[draw.permutation(len(b))[:n]]) for n in sizes]
    return float(np.polynomial.polynomial.polyfit(1 / sizes, value, 1)[0])


def kfd(a, b, *, subsets: int = 100, size: int = 1000, seed: int = 0) -> Estimate:
    """The kernel distance, unbiased, and its standard error over subsets."""
    a, b = _two(a, b)
    draw, n, d = np.random.default_rng(seed), min(size, len(a) // 2, len(b) // 2), a.shape[1]
    kernel = lambda u, v: (u @ v.T / d + 1) ** 3
    found = []
    for _ in range(subsets):
        x, y = (u[draw.choice(len(u), n, replace=False)] for u in (a, b))
        within = sum((k.sum() - np.trace(k)) / (n * (n - 1)) for k in (kernel(x, x), kernel(y, y)))
        found.append(within - 2 * kernel(x, y).mean())
    return Estimate(float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(subsets)))


def _two(a, b) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(f"features: the arrays are {a.shape} and {b.shape}; pass (n, d) and (m, d).")
    if min(len(a), len(b)) <= a.shape[1]:
        raise ValueError(f"features: {min(len(a), len(b))} points of {a.shape[1]} features; take more points.")
    return a, b
