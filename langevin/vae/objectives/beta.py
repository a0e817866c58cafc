r"""The β-VAE: an ELBO whose divergence from the prior counts β times.

    L_β = E_q log p_θ(x | z) − β KL(q_φ(z | x) ‖ p(z)).

β > 1 presses the code towards independent coordinates; it is a bound of log p(x) for β ≥ 1. With a share of β that
rises from 0 in training it is the usual warm-up.

References
----------
Higgins, Matthey, Pal, Burgess, Glorot, Botvinick, Mohamed & Lerchner (2017), β-VAE, eq. (4).
"""

from __future__ import annotations

import jax.numpy as jnp

from langevin.core.record import nonnegative, record, static


@record
class BetaELBO:
    """The ELBO with a weight of the divergence.

    beta: β.
    draws: of z for one gradient.
    """

    beta: float = nonnegative(default=4.0)
    draws: int = static(default=1)

    def __post_init__(self):
        if self.draws < 1:
            raise ValueError(f"BetaELBO: draws is {self.draws}; it must be 1 or more.")

    def init(self, key, model):
        return ()

    def values(self, key, posteriors, params):
        z = posteriors.draw(key, self.draws)
        return jnp.mean(posteriors.log_likelihood(z), axis=1) - self.beta * posteriors.divergence()
