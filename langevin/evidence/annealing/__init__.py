"""Methods that anneal chains from the base to the target, on all data."""

from langevin.evidence.annealing.ais import AIS, HAIS, Reverse
from langevin.evidence.annealing.bdmc import BDMC
from langevin.evidence.annealing.dais import DAIS
from langevin.evidence.annealing.ldvi import LDVI

__all__ = ["AIS", "BDMC", "DAIS", "HAIS", "LDVI", "Reverse"]
