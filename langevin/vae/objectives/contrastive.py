r"""The variational contrastive divergence: how much better a chain's end is than the encoder's draw.

    VCD = KL(q_φ ‖ p) − KL(q_T ‖ p) + KL(q_T ‖ q_φ) = E_{q_T} f − E_{q_φ} f,      f = log p_θ(x, z) − log q_φ(z | x),

q_T the law of T steps of a kernel from q_φ. It is never negative, zero if and only if q_φ is the posterior, and tends
to the symmetric KL as T → ∞. φ goes down

    −∇_φ E_{q_φ} f (reparameterised) − E ∇_φ log q_φ(z_T) + E (f(z_T) − c) ∇_φ log q_φ(z_0),

the last by the score at the first draw (that the kernel's units are those of q_φ is left out); c is the mean of f(z_T)
over the other chains of the example. θ goes up log p_θ(x, z_T). The value is −VCD.

References
----------
Ruiz & Titsias (2019), A contrastive divergence for combining variational inference and MCMC, eqs. (6)-(12).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from langevin.core.record import record, static
from langevin.vae.chains import USUAL, check_chain, move, with_gradient


@record
class Contrastive:
    """VCD.

    kernel: how z moves, in units of the encoder's standard deviations.
    steps: T.
    draws: chains of one example; 2 or more, for the control variate.
    """

    kernel: Any = USUAL
    steps: int = static(default=5)
    draws: int = static(default=2)

    def __post_init__(self):
        check_chain("Contrastive", self.kernel, self.steps, self.draws)
        if self.draws < 2:
            raise ValueError("Contrastive: draws is 1; the control variate needs 2 or more.")

    def init(self, key, model):
        return ()

    def values(self, key, posteriors, params):
        k_start, k_move = jax.random.split(key)
        start = posteriors.draw(k_start, self.draws)
        z = move(k_move, posteriors, self.kernel, self.steps, start).z
        held = posteriors.held(theta=True)
        first, last = held.log_weight(start), held.log_weight(z)
        gain = jax.lax.stop_gradient(last)
        others = (jnp.sum(gain, axis=1, keepdims=True) - gain) / (self.draws - 1)
        score = held.log_q(jax.lax.stop_gradient(start))
        learn = first + held.log_q(z) - (gain - others) * score + posteriors.held(q=True).log_joint(z)
        return with_gradient(jnp.mean(first - last, axis=1), jnp.mean(learn, axis=1))
