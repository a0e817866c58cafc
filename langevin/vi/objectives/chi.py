r"""The χ upper bound, whose minimum covers all of the mass.

    CUBO_n(φ) = (1/n) log E_q[w^n] ≥ log Z,      n = 2: log Z + ½ log (1 + χ²(p ‖ q)).

It is Rényi's bound of order α = 1 − n, and is minimised. With K draws its estimate is biased downwards.

References
----------
Dieng, Tran, Ranganath, Paisley & Blei (2017), Variational inference via χ upper bound minimization, eq. (3).
"""

from __future__ import annotations

from numbers import Real

from langevin.core.record import record, static
from langevin.vi.objectives.base import Estimator, Objective, Terms, renyi


@record
class Chi(Objective):
    """Minus the χ upper bound.

    order: n, above 1.
    draws: K.
    estimator: "reparameterization", "stl" (biased) or "dreg".
    """

    order: float = 2.0
    draws: int = static(default=32)
    estimator: Estimator = static(default="dreg")

    def check(self, name):
        if isinstance(self.order, Real) and not self.order > 1:
            raise ValueError(f"{name}: order is {self.order}; it must be above 1 (2 for χ²), or take Renyi or IWAE.")

    def terms(self, log_w, share):
        found = renyi(log_w, share, 1.0 - self.order, self.estimator)
        return Terms(-found.value, -found.target, -found.density)
