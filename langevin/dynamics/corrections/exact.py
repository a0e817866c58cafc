r"""The divergence of the metric itself, by differentiation.

    Γ̂ = Γ(θ),      η = R(θ) ξ.

For a metric of the position alone it has a closed form and costs no gradient; otherwise d differentiated evaluations.
"""

from __future__ import annotations

from typing import ClassVar

from langevin.core.record import record
from langevin.dynamics import divergence
from langevin.dynamics.corrections.base import Correction, Point


@record
class ExactDivergence(Correction):
    """Γ exactly: in closed form, or by d differentiated evaluations."""

    name: ClassVar[str] = "exact"

    def terms(self, key, point: Point):
        eta = point.metric.root(point.geometry, point.xi)
        if point.metric.kind == "position":
            return point.metric.divergence(point.position), eta
        return divergence.exact(point.local.apply, point.position), eta

    def extra(self, dimension):
        return dimension
