r"""Stochastic gradient Langevin dynamics.

    θ' = θ + h ĝ(θ) + √(2 T h) ξ,      ĝ an estimate of ∇log p, ξ noise of unit variance.

Recipe on z = θ: D = I, Q = 0, Γ = 0. The law is p^(1/T) as h → 0, with a bias O(h): on N(0, σ²) the variance is
T σ² / (1 − h/2σ²); mini-batch noise of variance S adds heat, T → T + h S / 2. Only E ξ = E ξ³ = 0, E ξ² = 1 enter the
weak order, so `noise="rademacher"` is as right as "normal" and costs next to nothing.

References
----------
Welling & Teh (2011), Bayesian learning via stochastic gradient Langevin dynamics, eq. (4).
Vollmer, Zygalakis & Teh (2016), Exploration of the (non-)asymptotic bias and variance of SGLD, thm. 7.
Milstein & Tretyakov (2004), Stochastic Numerics for Mathematical Physics, §2.1 (weak order with bounded noise).
"""

from __future__ import annotations

from langevin.core.kernel import audited, kernel
from langevin.core.noise import Noise
from langevin.core.record import nonnegative, positive, static
from langevin.core.schedule import Schedule
from langevin.dynamics.recipe import Recipe


@kernel
class SGLD(Recipe):
    """Overdamped Langevin dynamics, Euler discretised.

    step_size: h.
    temperature: T; the chain targets p^(1/T).
    noise: "normal" or "rademacher".
    """

    step_size: Schedule = positive(default=1e-3)
    temperature: Schedule = nonnegative(default=1.0)
    noise: Noise = static(default="normal")
    audit = audited(step_size=0.05, variants={"rademacher": dict(step_size=0.05, noise="rademacher")})

    def D(self, z, memory, v):
        return v

    def sqrt_D(self, z, memory, v):
        return v
