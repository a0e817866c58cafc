r"""Langevin dynamics in the Monge metric, as published and with the missing Γ.

    θ' = θ + h (D ĝ + T Γ) + √(2Th) √D ξ,      D = (I + α² m mᵀ)⁻¹,      m = β m + (1 − β) ĝ:

three dot products a step. As published Γ is dropped, and on N(0, 1) the law is (1 + α²θ²) p, with a minimum where p has
its maximum. With β = 0 and a correction (default `fixman`, two gradients) it is p^(1/T). `dynamics.riemann` has the
derivation of every correction.

References
----------
Yu, Hartmann, Williams & Klami (2023), Scalable stochastic gradient Riemannian Langevin dynamics in non-diagonal
    metrics, §3.
Hartmann, Girolami & Klami (2022), Lagrangian manifold Monte Carlo on Monge patches, §3 (the metric).
Rensmeyer & Niggemann (2024), On the convergence of locally adaptive and scalable diffusion-based sampling methods, §3.
"""

from __future__ import annotations

from langevin.core.kernel import audited, kernel
from langevin.core.record import nonnegative, static
from langevin.dynamics.metrics.monge import MongeMetric
from langevin.dynamics.riemann import Riemann


@kernel
class Monge(Riemann):
    """Langevin dynamics with shorter steps along the gradient.

    alpha: α², how strongly a steep slope shortens the step along it.
    decay: β of the moving average of the gradient; 0, the present one alone, is what a correction needs.
    """

    alpha: float = nonnegative(default=1.0)
    decay: float = static(default=0.0)
    audit = audited(step_size=0.05, alpha=0.3, variants={"none": dict(step_size=0.05, alpha=1.0, correction="none")})

    @property
    def metric(self) -> MongeMetric:
        return MongeMetric(self.alpha, self.decay)
