r"""The inclusive KL divergence KL(p ‖ q), by self-normalised importance sampling.

    −∇_φ KL(p ‖ q_φ) = E_p ∇_φ log q_φ(θ) ≈ Σ_k w̄_k ∇_φ log q_φ(θ_k),      w̄_k = w_k/Σ w,  θ_k ~ q_φ held fixed.

At its minimum a Gaussian has the mean and the covariance of the posterior, a factorised one its variances. The estimate
is consistent in K and biased at any K; it is blind to mass of p where no draw falls.

References
----------
Bornschein & Bengio (2015), Reweighted wake-sleep, eq. (11).
Tucker, Lawson, Gu & Maddison (2019), Doubly reparameterized gradient estimators, §4 (dreg: w̄ − w̄²).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from langevin.core.record import record, static
from langevin.vi.objectives.base import Estimator, Objective, Terms


@record
class InclusiveKL(Objective):
    """Minus KL(p ‖ q), up to the entropy of p.

    draws: K.
    estimator: "reparameterization" (the score, as above) or "dreg".
    """

    draws: int = static(default=32)
    estimator: Estimator = static(default="reparameterization")

    def check(self, name):
        if self.estimator == "stl":
            raise ValueError(f"{name}: its gradient is a score, so estimator is 'reparameterization' or 'dreg'.")

    @property
    def through(self):
        return "path" if self.estimator == "dreg" else "score"

    def terms(self, log_w, share):
        weight = jax.nn.softmax(share + log_w)
        value = -jnp.sum(weight * (log_w - jax.nn.logsumexp(share + log_w)))  # −KL(p ‖ q) by the same weights
        if self.estimator == "dreg":
            part = weight - weight**2
            return Terms(value, part, part)
        return Terms(value, jnp.zeros_like(weight), -weight)
