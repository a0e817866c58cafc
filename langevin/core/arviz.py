"""Draws as ArviZ has them: an InferenceData (0.x) or a DataTree (1.x)."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import numpy as np

from langevin.core import tree
from langevin.core.types import PyTree

GIVEN = ("observed_data", "constant_data", "predictions_constant_data")  # groups without chains


def export(values: PyTree, info: Any, collected: np.ndarray, groups: dict[str, dict]) -> Any:
    """Values (chain, draw, …) by name, what the sampler reported, other groups; draws not collected are left out."""
    names = tree.names(values)
    names = ["x"] if names == [""] else [n or "x" for n in names]
    chains, draws = np.flatnonzero(collected.any(1)), np.flatnonzero(collected.any(0))
    pick = lambda u: np.asarray(u)[np.ix_(chains, draws)]
    stats = {"lp": info.log_density, "acceptance_rate": info.acceptance}
    stats |= {"energy_error": info.energy_error, "n_steps": info.n_grad}
    posterior = dict(zip(names, jax.tree.leaves(values), strict=True))
    every = {"posterior": posterior, "sample_stats": stats} | groups
    cut = {g: {n: u if g in GIVEN else pick(u) for n, u in found.items()} for g, found in every.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz as az

        return az.from_dict(cut) if int(az.__version__.split(".")[0]) >= 1 else az.from_dict(**cut)  # type: ignore[arg-type]
