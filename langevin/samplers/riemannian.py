r"""Langevin dynamics in any metric.

    θ' = θ + h (D ĝ + T Γ) + √(2Th) √D ξ,

D from `langevin.metrics`, one small file each: RMS (diagonal), Block (one number a leaf), Position (of θ alone),
LowRank, Kronecker, Windowed (frozen, one window late), Fixed; or a record of your own with the same methods. The law
is p^(1/T), bias O(h), with any correction that is right for the metric; `core.riemann` has the derivation of each.

References
----------
Girolami & Calderhead (2011), Riemann manifold Langevin and Hamiltonian Monte Carlo methods, eq. (10).
Patterson & Teh (2013), Stochastic gradient Riemannian Langevin dynamics on the probability simplex, eq. (7).
"""

from __future__ import annotations

from typing import Any

from langevin.core.kernel import kernel
from langevin.core.noise import Noise
from langevin.core.record import nonnegative, positive, static
from langevin.core.riemann import Correction, Riemann
from langevin.core.schedule import Schedule
from langevin.metrics.diagonal import RMS


@kernel
class Riemannian(Riemann):
    """Langevin dynamics in a metric of your choice.

    step_size: h.
    temperature: T; the chain targets p^(1/T).
    metric: a record from `langevin.metrics`.
    correction: "auto", "none", "exact", "hutchinson", "rfd", "fixman", "hk2" or "pec".
    metric_batch: the share of a batch the metric has to itself; None: 1/8 if a correction needs it; 0: none of its own.
    delta: δ of "rfd", in units of the position; larger where matrix products have few digits.
    noise: "normal" or "rademacher".
    """

    step_size: Schedule = positive(default=1e-3)
    temperature: Schedule = nonnegative(default=1.0)
    metric: Any = RMS()
    correction: Correction = static(default="auto")
    metric_batch: float | None = static(default=None)
    delta: float = positive(default=1e-3)
    noise: Noise = static(default="normal")
