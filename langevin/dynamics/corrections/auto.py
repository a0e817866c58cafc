"""The default: the cheapest correction that is right for the metric and the target, chosen when both are known."""

from __future__ import annotations

from typing import Any, ClassVar

from langevin.core.record import record
from langevin.dynamics.corrections.base import Correction
from langevin.dynamics.corrections.end_point import EndPoint
from langevin.dynamics.corrections.exact import ExactDivergence
from langevin.dynamics.corrections.fixman import Fixman
from langevin.dynamics.corrections.none import NoCorrection
from langevin.dynamics.corrections.pec import PEC


@record
class Auto(Correction):
    """The cheapest correction that is right.

    A metric of the position alone has its divergence in closed form. A diagonal metric of the gradient takes PEC, one
    gradient a step, on an exact target and EndPoint, two more on an eighth of a batch, on mini-batches. Others take
    Fixman. For a moving average no correction is right, and none is made.
    """

    name: ClassVar[str] = "auto"

    def choose(self, metric: Any, stochastic: bool) -> Correction:
        if metric.kind == "moving":
            return NoCorrection()
        if metric.kind == "position":
            return ExactDivergence()
        if not metric.diagonal:
            return Fixman()
        return EndPoint() if stochastic else PEC()
