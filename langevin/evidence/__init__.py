"""Evidence: log Z of a model, its error, its bounds and their guarantee, in one call.

`langevin.log_evidence(key, target, base)` chooses a method; every method is a record in one of three folders:
`annealing` (chains from base to target), `minibatch` (the same on mini-batches) and `sampling` (all else).
"""

from langevin.evidence.annealing import AIS, BDMC, DAIS, HAIS, LDVI, Reverse
from langevin.evidence.base import Normal
from langevin.evidence.entry import log_evidence
from langevin.evidence.method import METHODS, Method
from langevin.evidence.minibatch import Midpoint, Stages, StochasticDAIS, TwoBatch, ZigZag
from langevin.evidence.sampling import (
    SMC,
    SUMO,
    Adapted,
    Bridge,
    Harmonic,
    Importance,
    Laplace,
    Nested,
    SteppingStone,
    Thermodynamic,
)
from langevin.evidence.types import Evidence

__all__ = [
    "AIS",
    "BDMC",
    "DAIS",
    "HAIS",
    "LDVI",
    "METHODS",
    "SMC",
    "SUMO",
    "Adapted",
    "Bridge",
    "Evidence",
    "Harmonic",
    "Importance",
    "Laplace",
    "Method",
    "Midpoint",
    "Nested",
    "Normal",
    "Reverse",
    "Stages",
    "SteppingStone",
    "StochasticDAIS",
    "Thermodynamic",
    "TwoBatch",
    "ZigZag",
    "log_evidence",
]
