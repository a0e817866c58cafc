"""What a chart is drawn from: chains of named numbers and predictions, of a posterior or of a fitted estimator."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import jax
import numpy as np

from langevin.core import tree
from langevin.core.posterior import Posterior
from langevin.core.types import PyTree


class Chains(NamedTuple):
    """Named numbers (chain, draw) of the chains that count, the numbers of those chains, and of those left out."""

    values: dict[str, np.ndarray]
    chains: np.ndarray
    left_out: tuple[int, ...]


def posterior_of(source: Any, who: str) -> Posterior:
    """The posterior itself, or that of a fitted estimator."""
    found = source if isinstance(source, Posterior) else getattr(source, "posterior_", None)
    if not isinstance(found, Posterior):
        raise TypeError(
            f"{who}: this is {type(source).__name__}; give it a Posterior or an estimator that has been fitted."
        )
    return found


def chains_of(source: Any, who: str, fn: Callable[[PyTree], PyTree] | None, limit: int) -> Chains:
    """The numbers of fn(position); without fn those of a position of at most `limit` numbers, else the log density."""
    posterior = posterior_of(source, who)
    weights = posterior.weights()
    chains, draws = np.flatnonzero(weights.any(1)), np.flatnonzero(weights.any(0))
    kept, values = np.ix_(chains, draws), {}
    if fn is None and _size(posterior) > limit:
        values["log density"] = np.asarray(posterior.info.log_density, float)[kept]
    else:
        found = posterior.values(fn, limit=limit)
        for name, leaf in zip(tree.names(found), jax.tree.leaves(found), strict=True):
            x = np.asarray(leaf, float)[kept]
            for index in product(*map(range, x.shape[2:])):
                ends = f"[{','.join(map(str, index))}]" if index else ""
                values[f"{name or 'x'}{ends}"] = x[(slice(None), slice(None), *index)]
    if len(values) > limit:
        raise ValueError(f"{who}: fn gives {len(values)} numbers; return {limit} or fewer, or set a larger limit.")
    return Chains(values, chains, posterior.diverged)


def _size(posterior: Posterior) -> int:
    return tree.size(jax.tree.map(lambda u: u[0, 0], next(iter(posterior._blocks()))))


def predictions_of(source: Any, X: Any, predict: Callable | None, who: str) -> dict[str, np.ndarray]:
    """What every draw says of every row, (draw, n, …): {"mean", "std"} or {"proba"}."""
    if hasattr(source, "predictive"):
        posterior_of(source, who)
        return source.predictive(X)
    posterior = posterior_of(source, who)
    if predict is None:
        raise TypeError(f"{who}: a Posterior does not know how to predict; pass predict=, such as bnn(…).predict.")
    collected = posterior.weights() > 0
    said = posterior.predict(predict, X)
    if not isinstance(said, dict):
        raise TypeError(f"{who}: predict gives {type(said).__name__}; it must give a dict with mean and std, or proba.")
    return {name: np.asarray(value, float)[collected] for name, value in said.items()}
