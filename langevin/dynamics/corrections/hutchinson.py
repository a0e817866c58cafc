r"""An unbiased estimate of Γ from one differentiated evaluation.

    Γ̂ = ∂_{Rv}[D R⁻¹v],  v = ±1,      η = R(θ) ξ.

References
----------
Hutchinson (1989), A stochastic estimator of the trace of the influence matrix, §2.
"""

from __future__ import annotations

from typing import ClassVar

from langevin.core import noise
from langevin.core.record import record
from langevin.dynamics import divergence
from langevin.dynamics.corrections.base import Correction, Point


@record
class Hutchinson(Correction):
    """Γ by one derivative along random signs."""

    name: ClassVar[str] = "hutchinson"

    def terms(self, key, point: Point):
        metric, geometry = point.metric, point.geometry
        v = noise.like(key, point.position, "rademacher")
        along, across = metric.root(geometry, v), metric.unroot(geometry, v)
        return divergence.along(point.local.apply, point.position, along, across), metric.root(geometry, point.xi)
