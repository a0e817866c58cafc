r"""Learning a decoder from MCMC: chains from the encoder's draws, whose ends take the encoder's place.

    φ ← ∇_φ ELBO,        θ ← ∇_θ log p_θ(x, z_T),        z_T: T steps of a kernel on p_θ(z | x) from z_0 ~ q_φ(z | x).

No gradient goes through the chain. As T grows θ follows the gradient of log p_θ(x) itself; the encoder gives a good
place to start. With T = 0 this is a VAE. The value is the ELBO.

References
----------
Hoffman (2017), Learning deep latent Gaussian models with Markov chain Monte Carlo, algorithm 1.
Chen, Li, Zhang & Li, Bayesian Computation in Deep Learning, §3.3.2.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from langevin.core.record import record, static
from langevin.vae.chains import USUAL, check_chain, move, with_gradient
from langevin.vae.objectives.weighted import Weighted
from langevin.vi.objectives.elbo import ELBO


@record
class Hoffman:
    """MCMC for the decoder, ELBO for the encoder.

    kernel: how z moves, in units of the encoder's standard deviations.
    steps: T.
    draws: chains of one example.
    """

    kernel: Any = USUAL
    steps: int = static(default=10)
    draws: int = static(default=1)

    def __post_init__(self):
        check_chain("Hoffman", self.kernel, self.steps, self.draws)

    def init(self, key, model):
        return ()

    def values(self, key, posteriors, params):
        k_bound, k_start, k_move = jax.random.split(key, 3)
        value = Weighted(ELBO(self.draws)).values(k_bound, posteriors.held(theta=True), ())
        moved = move(k_move, posteriors, self.kernel, self.steps, posteriors.draw(k_start, self.draws))
        return value + with_gradient(jnp.zeros(()), jnp.mean(posteriors.log_joint(moved.z), axis=1))
