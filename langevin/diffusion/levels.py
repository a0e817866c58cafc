r"""Noise levels of NCSNv2 and the step size of annealed Langevin on them, by its rules.

References
----------
Song & Ermon (2020), Improved techniques for training score-based generative models, §3.1-3.3, prop. 3.
"""

from __future__ import annotations

import math

import numpy as np


def levels(data, smallest: float = 0.01, *, largest: float | None = None, most: int = 2000) -> np.ndarray:
    """Geometric noise levels: from the largest distance of two examples down, as close as half their shells overlap.

    The ratio γ solves Φ(√(2D)(γ − 1) + 3γ) − Φ(√(2D)(γ − 1) − 3γ) = ½. Distances are those of the first `most` rows.
    """
    x = np.asarray(data, np.float64).reshape(len(data), -1)
    if not np.isfinite(x).all():
        raise ValueError("levels: the data have values that are not finite; drop or impute those rows.")
    if largest is None:
        few = x[:most]
        square = (few**2).sum(1)
        largest = math.sqrt(max(float(np.max(square[:, None] + square[None] - 2 * few @ few.T)), 0.0))
    if not 0 < smallest < largest:
        raise ValueError(f"levels: smallest is {smallest} and largest {largest:g}; smallest must be between 0 and it.")
    ratio = overlap_ratio(x.shape[1])
    count = 2 + int(math.log(largest / smallest) / math.log(ratio))
    return np.geomspace(largest, smallest, count)


def overlap_ratio(d: int) -> float:
    """γ of `levels` in d dimensions, by bisection; at most 2, for in few dimensions shells overlap whatever it is."""
    normal = lambda z: 0.5 * math.erfc(-z / math.sqrt(2))
    shells = lambda g: normal(math.sqrt(2 * d) * (g - 1) + 3 * g) - normal(math.sqrt(2 * d) * (g - 1) - 3 * g)
    low, high = 1.0, 2.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if shells(middle) > 0.5 else (low, middle)
    return low


def step_rule(sigmas, steps: int = 5) -> float:
    """The step size, in units of σ², after whose `steps` steps a level's variance is nearest that of the next.

    With h it is (1 − h)^{2T} (γ² − b) + b, b = 1/(1 − h/2), and should be 1; it is above, so the least is taken.
    """
    gamma = float(sigmas[0] / sigmas[1])
    h = np.geomspace(1e-5, 0.999, 20_000)
    b = 1 / (1 - h / 2)
    return float(h[np.argmin((1 - h) ** (2 * steps) * (gamma**2 - b) + b)])
