r"""Fixman's rule: noise with the mean of D at both ends of the step, for any metric.

    Γ̂ = 0,      η = ½[D(θ) + D(y)] R(θ)⁻¹ ξ,      y = θ + s R(θ)ξ,

since E[½(D(y) − D(θ)) R⁻¹ξ] = (s/2) ∇·D for any D. Two evaluations a step.

References
----------
Fixman (1978), Simulation of polymer dynamics I.
Hütter & Öttinger (1998), Fluctuation-dissipation theorem, kinetic stochastic integral and efficient simulations.
"""

from __future__ import annotations

from typing import ClassVar

from langevin.core import tree
from langevin.core.record import record
from langevin.dynamics.corrections.base import Correction, Point


@record
class Fixman(Correction):
    """The mean of D at both ends of the step in the noise; for any metric."""

    name: ClassVar[str] = "fixman"

    def terms(self, key, point: Point):
        metric, geometry, xi = point.metric, point.geometry, point.xi
        kick = metric.root(geometry, xi)
        there = point.local.at(tree.axpy(point.scale, kick, point.position))[1]
        eta = tree.scale(0.5, tree.add(kick, metric.apply(there, metric.unroot(geometry, xi))))
        return tree.zeros_like(point.position), eta
