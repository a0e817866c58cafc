"""Methods from draws: of a proposal, of the posterior, or of chains at fixed temperatures; and Laplace's."""

from langevin.evidence.sampling.adapted import Adapted
from langevin.evidence.sampling.bridge import Bridge
from langevin.evidence.sampling.harmonic import Harmonic
from langevin.evidence.sampling.importance import SUMO, Importance
from langevin.evidence.sampling.laplace import Laplace
from langevin.evidence.sampling.nested import Nested
from langevin.evidence.sampling.smc import SMC
from langevin.evidence.sampling.thermo import SteppingStone, Thermodynamic

__all__ = [
    "SMC",
    "SUMO",
    "Adapted",
    "Bridge",
    "Harmonic",
    "Importance",
    "Laplace",
    "Nested",
    "SteppingStone",
    "Thermodynamic",
]
