r"""A single position: VI with it is maximum a posteriori, and several fits are a deep ensemble.

    q(θ) = δ(θ − μ),      ELBO = log p̃(μ) up to a constant.

References
----------
Lakshminarayanan, Pritzel & Blundell (2017), Simple and scalable predictive uncertainty estimation.
"""

from __future__ import annotations

import jax.numpy as jnp

from langevin.core.record import record


@record
class Delta:
    """A point; it has no density, so neither weights nor k̂ are known of it."""

    def init(self, key, position):
        return position

    def sample(self, key, params):
        return params

    def entropy(self, params):
        return jnp.zeros(())
