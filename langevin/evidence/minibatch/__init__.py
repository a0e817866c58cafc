"""Methods that anneal chains from the base to the target on mini-batches."""

from langevin.evidence.minibatch.midpoint import Midpoint, StochasticDAIS, TwoBatch
from langevin.evidence.minibatch.stages import Stages
from langevin.evidence.minibatch.zigzag import ZigZag

__all__ = ["Midpoint", "Stages", "StochasticDAIS", "TwoBatch", "ZigZag"]
