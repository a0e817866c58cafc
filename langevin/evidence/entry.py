r"""One call for all: log Z of a target from a base, by any method.

    adapted, smc, ais, hais, dais,
    ldvi, importance                         on all data, unbiased for Z or consistent
    midpoint, stages, stochastic_dais,
    two_batch                                on mini-batches
    zigzag                                   on mini-batches of a factored target: a true lower bound
    thermo, stepping                         from chains at fixed temperatures
    bdmc, reverse, bridge, harmonic          with draws of the posterior
    laplace, sumo, nested                    the rest

"auto" is `adapted` on all data and `midpoint` on mini-batches.
"""

from __future__ import annotations

import importlib
from typing import Any

import jax

from langevin.core.types import Key, PyTree
from langevin.evidence.base import checked
from langevin.evidence.types import Evidence

METHODS = {
    "adapted": "adapted",
    "smc": "smc",
    "ais": "ais",
    "hais": "ais",
    "dais": "dais",
    "ldvi": "ldvi",
    "importance": "importance",
    "midpoint": "minibatch",
    "stochastic_dais": "minibatch",
    "two_batch": "minibatch",
    "stages": "stages",
    "zigzag": "zigzag",
    "thermo": "thermo",
    "stepping": "thermo",
    "bdmc": "bdmc",
    "reverse": "ais",
    "bridge": "bridge",
    "harmonic": "harmonic",
    "laplace": "laplace",
    "sumo": "importance",
    "nested": "nested",
}
DRAWN = ("bdmc", "reverse", "bridge", "harmonic")  # they need draws of the target


def log_evidence(
    key: Key, target: Any, base: Any, *, method: str = "auto", draws: PyTree | None = None, **how: Any
) -> Evidence:
    """log Z = log ∫ e^{log_density} of a target, with its error, bounds, cost and guarantee.

    base: a normalised law that can be drawn from, such as Normal(mean, scale) or the prior.
    draws: of the target, where a method needs them; exact ones for `bdmc` and `reverse`.
    how: what the method takes: ladder, kernel, particles …
    """
    if method == "auto":
        method = "midpoint" if target.stochastic else "adapted"
    if method not in METHODS:
        raise ValueError(f"evidence: there is no method {method!r}; there are {', '.join(METHODS)}.")
    function = getattr(importlib.import_module(f"langevin.evidence.{METHODS[method]}"), method)
    if method == "laplace":
        start = jax.tree.map(lambda u: u[0], checked(base).exact(key, 1))
        return function(target, start, **how)
    if method == "zigzag":
        return function(key, target, **how)
    if method not in DRAWN:
        return function(key, target, base, **how)
    if draws is None:
        raise ValueError(f"evidence: {method} needs draws of the target; pass draws=…")
    return function(key, target, base, draws, **how)
