r"""End-point noise (the rule of Hänggi and Klimontovich, "hk2": two evaluations), for diagonal metrics.

    Γ̂ = 0,      η = R(y) ξ,      y = θ + s R(θ)ξ, the predicted end of the step.

The noise itself carries Γ: E[R_i(y)ξ_i] = s R_i ∂_i R_i = (s/2) ∂_i D_i, and s·(s/2) = h T.

References
----------
Hänggi & Thomas (1982), Stochastic processes: time evolution, symmetries and linear response (the end-point rule).
"""

from __future__ import annotations

from typing import ClassVar

from langevin.core import tree
from langevin.core.record import record
from langevin.dynamics.corrections.base import Correction, Point


@record
class EndPoint(Correction):
    """Noise scaled by the metric at the end of the step; for diagonal metrics."""

    name: ClassVar[str] = "hk2"
    diagonal: ClassVar[bool] = True

    def terms(self, key, point: Point):
        kick = point.metric.root(point.geometry, point.xi)
        there = point.local.at(tree.axpy(point.scale, kick, point.position))[1]
        return tree.zeros_like(point.position), point.metric.root(there, point.xi)
