r"""A posterior in a table: one row for each number, with its mean, spread, quantiles and what they are worth.

Means, standard deviations and quantiles are over collected draws of chains that have not diverged, with their weights.
R̂ and ESS are those of `diagnostics.convergence`, of the plain draws. Where weights differ, effective sample sizes are
multiplied by κ = 1/(n Σ w²), the share of n draws that the weights leave (Kish), and the Monte Carlo standard error of
the mean is sd/√(κ · ESS of the mean).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from langevin.core import tree
from langevin.core.posterior import Posterior
from langevin.core.types import PyTree
from langevin.diagnostics.convergence import LEAST, ess, rhat

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("mean", "sd", "q5", "q50", "q95", "mcse", "ess_bulk", "ess_tail", "rhat")
LEVELS = (0.05, 0.5, 0.95)


def summarize(posterior: Posterior, fn: Callable[[PyTree], PyTree] | None = None, *, limit: int = 100) -> pd.DataFrame:
    """A frame of COLUMNS, one row for each number of fn(position), or of the position itself if it is small."""
    import pandas as pd

    values = posterior.values(fn, limit=limit)
    weights = posterior.weights()
    chains, draws = np.flatnonzero(weights.any(1)), np.flatnonzero(weights.any(0))
    kept = np.ix_(chains, draws)
    names: list[str] = []
    rows: list[np.ndarray] = []
    for name, leaf in zip(tree.names(values), jax.tree.leaves(values), strict=True):
        flat = np.asarray(leaf, np.float64)[kept]
        names += [_entry(name, index) for index in product(*map(range, flat.shape[2:]))]
        rows.append(columns(flat.reshape(*flat.shape[:2], -1), weights[kept]))
    return pd.DataFrame(np.concatenate(rows), index=pd.Index(names, name="quantity"), columns=list(COLUMNS))


def columns(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The columns for draws (chain, draw, quantity) with weights (chain, draw) that sum to 1: (quantity, column)."""
    n, equal = weight.size, np.ptp(weight) < 1e-9 / weight.size
    kish = 1.0 if equal else 1 / (n * np.sum(weight**2))
    mean = np.tensordot(weight, x, 2)
    square = np.tensordot(weight, (x - mean) ** 2, 2)
    sd = np.sqrt(square / max(1 - 1 / (n * kish), 1e-12)) if n > 1 else np.full_like(mean, np.nan)
    flat, w = x.reshape(n, -1), weight.reshape(n)
    at = np.quantile(flat, LEVELS, axis=0) if equal else _quantiles(flat, w)
    unknown = np.full_like(mean, np.nan)
    if x.shape[1] < LEAST:
        return np.stack([mean, sd, *at, unknown, unknown, unknown, unknown], axis=1)
    error = sd / np.sqrt(kish * ess(x, "mean"))
    return np.stack([mean, sd, *at, error, kish * ess(x, "bulk"), kish * ess(x, "tail"), rhat(x)], axis=1)


def _quantiles(x: np.ndarray, weight: np.ndarray) -> Any:
    """Weighted quantiles of every column: the least value with so much weight at or below it."""
    return np.stack([np.quantile(c, LEVELS, weights=weight, method="inverted_cdf") for c in x.T], axis=1)


def _entry(name: str, index: tuple[int, ...]) -> str:
    """The name of one number of a leaf: `layers.0.weight[2,1]`."""
    return (name or "x") + (f"[{','.join(map(str, index))}]" if index else "")
