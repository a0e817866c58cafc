r"""Rényi's α-divergences, importance-weighted bounds among them.

    L_α(φ) = 1/(1−α) log E_q[w^{1−α}] = log Z − D_α[q ‖ p],      D_α[q ‖ p] = 1/(α−1) log ∫ q^α p^{1−α},

estimated by K draws, which is the VR-IWAE bound (1/(1−α)) E log (1/K) Σ w_k^{1−α}. α → 1 is the ELBO and α = 0 the
bound of importance-weighted autoencoders (IWAE). For 0 ≤ α ≤ 1 the bound with K draws lies between the ELBO and log Z
and rises with K. α near 1 seeks a mode, α near 0 covers the mass; below 0 it is an upper bound in the limit K → ∞ and
is minimised, so take `Chi`. In the chapter p and q change places in eq. (2.20), which does not fit (2.21) nor the
limits stated there; (2.21) is right.

References
----------
Chen, Li, Zhang & Li, Bayesian Computation in Deep Learning, eqs. (2.20)-(2.21).
Li & Turner (2016), Rényi divergence variational inference.
Burda, Grosse & Salakhutdinov (2016), Importance weighted autoencoders, eq. (8).
Daudel, Benton, Shi & Doucet (2023), Alpha-divergence variational inference meets importance weighted auto-encoders.
"""

from __future__ import annotations

from langevin.core.record import nonnegative, record, static
from langevin.vi.objectives.base import Estimator, Objective, renyi


@record
class Renyi(Objective):
    """The bound of order α by K draws.

    alpha: α, 0 or more; 1 is the ELBO, 0 the IWAE bound.
    draws: K.
    estimator: "reparameterization", "stl" (biased for K > 1 and α < 1) or "dreg".
    """

    alpha: float = nonnegative(default=0.5)
    draws: int = static(default=10)
    estimator: Estimator = static(default="reparameterization")

    def terms(self, log_w, share):
        return renyi(log_w, share, self.alpha, self.estimator)


@record
class IWAE(Objective):
    """log of the mean of K importance weights.

    draws: K.
    estimator: "reparameterization", "stl" (biased for K > 1) or "dreg".
    """

    draws: int = static(default=10)
    estimator: Estimator = static(default="dreg")

    def terms(self, log_w, share):
        return renyi(log_w, share, 0.0, self.estimator)
