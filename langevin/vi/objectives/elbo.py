r"""The evidence lower bound, whose maximum is the minimum of KL(q ‖ p).

    ELBO(φ) = E_q[log p̃(θ) − log q_φ(θ)] = log Z − KL(q_φ ‖ p) = E_q[log p(D | θ)] − KL(q_φ ‖ prior).

Entropy of q and mean of the log prior are taken in closed form where family and prior have one (`analytic`), so that
only the log likelihood is noisy; mini-batches are scaled by the target.

References
----------
Chen, Li, Zhang & Li, Bayesian Computation in Deep Learning, eqs. (2.14)-(2.19), algorithm 2.
"""

from __future__ import annotations

from langevin.core.record import record, static
from langevin.vi.objectives.base import Estimator, Objective, renyi


@record
class ELBO(Objective):
    """log Z − KL(q ‖ p).

    draws: K, of q for one gradient.
    estimator: "reparameterization", or "stl", which leaves the score out and takes no closed form.
    analytic: entropy and mean of the prior in closed form, where there is one.
    """

    draws: int = static(default=1)
    estimator: Estimator = static(default="reparameterization")
    analytic: bool = static(default=True)

    def terms(self, log_w, share):
        return renyi(log_w, share, 1.0, self.estimator)
