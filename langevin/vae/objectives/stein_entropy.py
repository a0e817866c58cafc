r"""Langevin chains inside the ELBO, the entropy of their ends by a Stein estimate of its gradient.

    L = E log p_θ(x, z_T) + H[q_T],      ∇H[q_T] = −E ∇_z log q_T(z_T)ᵀ ∂z_T,

z_T the end of T unadjusted Langevin steps from z_0 ~ q_φ(z | x), differentiated in φ, in the step sizes and in θ
through the whole chain. q_T has no density that is known; of the S chains of one example its score is estimated by

    ĝ = −(K + η I)⁻¹ Σ_j ∇_{z_j} K(·, z_j),

K a Gaussian kernel whose width is the median distance over √2. The value is the ELBO of z_0 by the encoder's own
density.

References
----------
Li & Turner (2018), Gradient estimators for implicit models, eq. (11).
Chen, Li, Zhang & Li, Bayesian Computation in Deep Learning, §3.3.2.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from langevin.core import noise
from langevin.core.record import positive, record, static
from langevin.vae.chains import with_gradient


@record
class SteinEntropy:
    """Unadjusted Langevin steps with an estimated entropy gradient.

    steps: T.
    draws: S, chains of one example, from which the score is estimated.
    step_size: η_t to begin with, in units of the encoder's standard deviations; one is learned for each step.
    ridge: added to the kernel matrix.
    """

    steps: int = static(default=5)
    draws: int = static(default=16)
    step_size: float = positive(default=0.05)
    ridge: float = positive(default=0.1)

    def __post_init__(self):
        if self.steps < 0 or self.draws < 3:
            raise ValueError(
                f"SteinEntropy: {self.steps} steps and {self.draws} draws; steps must be 0 or more, and a score needs "
                "3 draws or more."
            )

    def init(self, key, model):
        return {"log_step": jnp.full(self.steps, jnp.log(self.step_size))}

    def values(self, key, posteriors, params):
        k_start, k_run = jax.random.split(key)
        start = posteriors.draw(k_start, self.draws)
        z = self.chain(k_run, posteriors, start, params)
        log_q_slope = jax.lax.stop_gradient(jax.vmap(stein_score, (0, None))(z, self.ridge))
        learn = posteriors.log_joint(z) - jnp.sum(log_q_slope * z, axis=-1)
        value = posteriors.log_weight(start)
        return with_gradient(jnp.mean(value, axis=1), jnp.mean(learn, axis=1))

    def chain(self, key, posteriors, z, params):
        """The ends (row, draw, latent) of the chains from z."""
        unit = posteriors.q.scale[:, None]
        slope = jax.grad(lambda z: jnp.sum(posteriors.log_joint(z)))
        words, wrap = noise.words(jax.random.split(key, self.steps))

        def step(z, x):
            word, log_step = x
            h = jnp.exp(log_step)
            return z + h * unit**2 * slope(z) + jnp.sqrt(2 * h) * unit * noise.like(wrap(word), z), None

        return jax.lax.scan(step, z, (words, params["log_step"]))[0]


def stein_score(z: jax.Array, ridge: float) -> jax.Array:
    """An estimate of ∇log q at draws z (draw, d) of q."""
    z = jax.lax.stop_gradient(z)
    unit = jnp.std(z, axis=0, keepdims=True) + 1e-6
    u = z / unit
    square = jnp.sum((u[:, None] - u[None]) ** 2, axis=-1)
    length2 = 0.5 * jnp.median(square) + 1e-6
    k = jnp.exp(-0.5 * square / length2)
    # Σ_j ∇_{u_j} k(u_i, u_j)
    rise = (jnp.sum(k, axis=1, keepdims=True) * u - k @ u) / length2
    return -jnp.linalg.solve(k + ridge * jnp.eye(len(u)), rise) / unit
