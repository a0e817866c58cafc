"""The methods that `vi-uci` compares, each a plan that begins with the trained networks."""

from __future__ import annotations

from typing import Any

from langevin import vi
from langevin.core.record import replace
from langevin.tune.plan import Plan
from langevin.vi.plans import PLANS

ELBO = vi.ELBO(draws=4)
RATES = dict(boston=0.05, wine_quality_red=0.05)  # of dropout; 0.01 elsewhere


def fitted(family: Any, objective: Any = ELBO, **how: Any) -> Plan:
    """A family fitted by Adam from the trained networks."""
    return Plan(vi.Independent(family), vi.Fit(objective, **({"steps": 4_000, "batch": 64} | how)), thin=1)


def methods(name: str, *, quick: bool = False) -> dict[str, Plan]:
    """Those for a table, in the order of the report."""
    found = {
        "mfvi": PLANS["vi"],
        "low rank": fitted(vi.LowRank(), steps=8_000),
        "matrix normal": fitted(vi.MatrixNormal(rank=2), steps=8_000),
        "flow": fitted(vi.Flow(layers=2), rate=0.003),
        "sivi": fitted(vi.SemiImplicit()),
        "laplace": PLANS["laplace"],
        "swag": PLANS["swag"],
        "ivon": PLANS["ivon"],
        "ensemble": PLANS["ensemble"],
        "dropout": fitted(vi.Dropout(RATES.get(name, 0.01)), vi.ELBO(), steps=8_000),
        "mile": PLANS["mile"],
        "smile": PLANS["smile"],
    }
    return {name: shortened(plan) for name, plan in found.items()} if quick else found


def shortened(plan: Plan) -> Plan:
    """For a test of the code."""
    tune = replace(plan.tune, steps=50) if isinstance(plan.tune, (vi.Fit, vi.IVON)) else plan.tune
    tune = replace(tune, spacing=2) if isinstance(tune, vi.SWAG) else tune
    return replace(plan, tune=tune, draws=min(plan.draws, 20))
