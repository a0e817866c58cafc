r"""Amortized MCMC: the encoder is the student of its own chains.

    φ ← ∇_φ E log q_φ(z_T | x),        θ ← ∇_θ log p_θ(x, z_T),        z_T: T steps of a kernel from z_0 ~ q_φ(z | x),

so φ goes down KL(q_T ‖ q_φ), the inclusive divergence from the chain's law to the encoder's, with z_T held constant:
the encoder covers what the chains find. The value is the ELBO.

References
----------
Li, Turner & Liu (2017), Approximate inference with amortized MCMC, algorithm 1, §3.2.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from langevin.core.record import record, static
from langevin.vae.chains import USUAL, check_chain, move, with_gradient


@record
class AmortizedMCMC:
    """MCMC for the decoder, and the encoder fitted to where the chains end.

    kernel: how z moves, in units of the encoder's standard deviations.
    steps: T.
    draws: chains of one example.
    """

    kernel: Any = USUAL
    steps: int = static(default=10)
    draws: int = static(default=1)

    def __post_init__(self):
        check_chain("AmortizedMCMC", self.kernel, self.steps, self.draws)

    def init(self, key, model):
        return ()

    def values(self, key, posteriors, params):
        k_start, k_move = jax.random.split(key)
        start = posteriors.draw(k_start, self.draws)
        elbo = jnp.mean(posteriors.held(theta=True, q=True).log_weight(jax.lax.stop_gradient(start)), axis=1)
        z = move(k_move, posteriors, self.kernel, self.steps, start).z
        return with_gradient(elbo, jnp.mean(posteriors.log_joint(z) + posteriors.log_q(z), axis=1))
