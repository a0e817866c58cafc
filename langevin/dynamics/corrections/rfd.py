r"""Random finite differences: Γ from one more evaluation near θ.

    Γ̂ = [D(θ + δv) − D(θ)] v/δ,  v = ±1,      η = R(θ) ξ.

References
----------
Delong, Balboa Usabiaga, Delgado-Buscalioni, Griffith & Donev (2014), Brownian dynamics without Green's functions,
    §III.B.
"""

from __future__ import annotations

from typing import ClassVar

from langevin.core import noise
from langevin.core.record import positive, record
from langevin.dynamics import divergence
from langevin.dynamics.corrections.base import Correction, Point


@record
class RandomFiniteDifference(Correction):
    """Γ by a finite difference along random signs.

    delta: δ, in units of the position; larger where matrix products have few digits.
    """

    delta: float = positive(default=1e-3)
    name: ClassVar[str] = "rfd"

    def terms(self, key, point: Point):
        metric, geometry = point.metric, point.geometry
        v = noise.like(key, point.position, "rademacher")
        gamma = divergence.rfd(point.local.apply, point.position, v, metric.apply(geometry, v), self.delta)
        return gamma, metric.root(geometry, point.xi)
