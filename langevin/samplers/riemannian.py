r"""Langevin dynamics in any metric.

    θ' = θ + h (D ĝ + T Γ) + √(2Th) √D ξ,

D is a metric of `langevin.dynamics`: RMS (diagonal), Block (one number a leaf), Position (of θ alone), MongeMetric,
Kronecker, Windowed (frozen, one window late), Fixed; or a record of your own with the same methods. The law is p^(1/T),
bias O(h), with any correction that is right for the metric; `dynamics.riemann` has the derivation of each.

References
----------
Girolami & Calderhead (2011), Riemann manifold Langevin and Hamiltonian Monte Carlo methods, eq. (10).
Patterson & Teh (2013), Stochastic gradient Riemannian Langevin dynamics on the probability simplex, eq. (7).
"""

from __future__ import annotations

from typing import Any

from langevin.core.kernel import audited, kernel
from langevin.dynamics.metrics.diagonal import RMS
from langevin.dynamics.riemann import Riemann


@kernel
class Riemannian(Riemann):
    """Langevin dynamics in a metric of your choice.

    metric: a record from `langevin.dynamics.metrics`.
    """

    metric: Any = RMS()
    audit = audited(step_size=0.05)
