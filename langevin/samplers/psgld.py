r"""Preconditioned stochastic gradient Langevin dynamics, as published and with the missing Γ.

    θ' = θ + h (D ĝ + T Γ) + √(2 T h D) ξ,      D = (g² + λ²)^−½ (smooth) or 1/(λ + |g|) (li), per coordinate.

As published Γ is dropped and g² is a moving average of the batch that also drives the step: the law is p^(1/T)/D
(correction="none"). Here Γ costs next to nothing: by default the noise is scaled by the metric at the
predicted end of the step (`pec`, one gradient; `hk2` with a batch of its own for the metric on a mini-batched
target). The law is then p^(1/T), bias O(h). `dynamics.riemann` has the derivation of every correction. Under `pec`
`eval` is at the predicted end.

Li et al. take the mean likelihood gradient, without prior and not times N, where this takes the whole of ∇log p:
their λ and step are ours over N.

References
----------
Li, Chen, Carlson & Carin (2016), Preconditioned stochastic gradient Langevin dynamics for deep neural networks, alg. 1.
Rensmeyer & Niggemann (2024), On the convergence of locally adaptive and scalable diffusion-based sampling methods, §3.
"""

from __future__ import annotations

from typing import Any, Literal

from langevin.core.kernel import audited, kernel
from langevin.core.record import positive, static
from langevin.dynamics.metrics.diagonal import RMS
from langevin.dynamics.riemann import Riemann


@kernel
class PSGLD(Riemann):
    """Langevin dynamics whose step in each coordinate follows the size of its gradient.

    floor: λ, a number or a tree like the position; about the size of a typical gradient (`tune.metric_floor`).
    form: "smooth" 1/√(g² + λ²) or "li" 1/(λ + |g|).
    decay: of the moving average of g²; 0, the present gradient alone, is what a correction needs.
    """

    floor: Any = positive(default=1.0)
    form: Literal["smooth", "li"] = static(default="smooth")
    decay: float = static(default=0.0)
    audit = audited(step_size=0.05, variants={"none": dict(step_size=0.02, floor=0.3, correction="none")})

    @property
    def metric(self) -> RMS:
        return RMS(self.floor, self.form, self.decay)
