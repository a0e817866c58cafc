r"""No correction: Γ is dropped.

    Γ̂ = 0,      η = R(θ) ξ.

The stationary distribution is p^(1/T)/D in one dimension, for independent coordinates with D_i = D_i(θ_i), and for
D = ψ(θ) I; in general it has no closed form. Right where Γ = 0, that is for a frozen metric.

References
----------
Rensmeyer & Niggemann (2024), On the convergence of locally adaptive and scalable diffusion-based sampling methods, §3.
"""

from __future__ import annotations

from typing import ClassVar

from langevin.core import tree
from langevin.core.record import record
from langevin.core.types import Law
from langevin.dynamics.corrections.base import Correction, Point


@record
class NoCorrection(Correction):
    """Drop Γ, as published."""

    name: ClassVar[str] = "none"
    own_batch: ClassVar[float] = 0.0

    def terms(self, key, point: Point):
        return tree.zeros_like(point.position), point.metric.root(point.geometry, point.xi)

    def extra(self, dimension):
        return 0

    def accept_one_batch(self, who, better):
        pass

    def law(self, kernel) -> Law:
        return kernel.uncorrected_law()
