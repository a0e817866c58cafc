"""Ways to include Γ in Langevin dynamics with a metric, one small record each.

A kernel takes a record, `PSGLD(correction=EndPoint())`, or its short name, `PSGLD(correction="hk2")`.
"""

from langevin.dynamics.corrections.auto import Auto
from langevin.dynamics.corrections.base import Correction
from langevin.dynamics.corrections.end_point import EndPoint
from langevin.dynamics.corrections.exact import ExactDivergence
from langevin.dynamics.corrections.fixman import Fixman
from langevin.dynamics.corrections.hutchinson import Hutchinson
from langevin.dynamics.corrections.metropolis import Metropolis
from langevin.dynamics.corrections.none import NoCorrection
from langevin.dynamics.corrections.pec import PEC
from langevin.dynamics.corrections.rfd import RandomFiniteDifference
from langevin.dynamics.corrections.weights import Weights

CORRECTIONS = {
    c.name: c
    for c in (
        Auto,
        NoCorrection,
        ExactDivergence,
        Hutchinson,
        RandomFiniteDifference,
        Fixman,
        EndPoint,
        PEC,
        Metropolis,
        Weights,
    )
}

__all__ = [
    "CORRECTIONS",
    "PEC",
    "Auto",
    "Correction",
    "EndPoint",
    "ExactDivergence",
    "Fixman",
    "Hutchinson",
    "Metropolis",
    "NoCorrection",
    "RandomFiniteDifference",
    "Weights",
]
