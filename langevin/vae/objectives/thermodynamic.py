r"""The thermodynamic variational objective: a left Riemann sum of thermodynamic integration.

    log p(x) = ∫₀¹ E_{π_β} log w dβ,  w = p_θ(x, z)/q_φ(z | x),  π_β ∝ q^{1−β} p^β;

    TVO = Σ_{k=1}^K (β_k − β_{k−1}) E_{π_{β_{k−1}}} log w ≤ log p(x),      β_0 = 0,  β_K = 1,

each mean by S draws of q with weights ∝ w^β; one part, K = 1, is the ELBO. The integrand rises with β, so a left sum is
a lower bound, up to the bias of the S draws. The gradient is that of expectations under π_β, with z held constant,

    ∇ E_{π_β} f = E_{π_β} ∇f + Cov_{π_β}(∇ log π̃_β, f),

so it needs no reparameterisation of z; of S draws the covariance is too small by the factor (S − 1)/S.

References
----------
Masrani, Le & Wood (2019), The thermodynamic variational objective, eqs. (8), (11), appendix on the covariance gradient.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from langevin.core.record import positive, record, static


@record
class Thermodynamic:
    """TVO.

    parts: K, of the integral over β.
    draws: S.
    first: β_1 where there is more than one part; the rest are spaced evenly in log β up to 1.
    """

    parts: int = static(default=5)
    draws: int = static(default=16)
    first: float = positive(default=0.05)

    def __post_init__(self):
        if self.parts < 1 or self.draws < 2:
            raise ValueError(
                f"Thermodynamic: {self.parts} parts and {self.draws} draws; parts must be 1 or more, draws 2 or more."
            )
        if not isinstance(self.first, jax.core.Tracer) and self.first >= 1:
            raise ValueError(f"Thermodynamic: first is {self.first}; it must be below 1.")

    def init(self, key, model):
        return ()

    def ladder(self) -> jax.Array:
        """β_0 … β_K."""
        if self.parts == 1:
            return jnp.array([0.0, 1.0])
        rest = jnp.exp(jnp.linspace(jnp.log(self.first), 0.0, self.parts))
        return jnp.concatenate([jnp.zeros(1), rest]).at[-1].set(1.0)

    def values(self, key, posteriors, params):
        z = jax.lax.stop_gradient(posteriors.draw(key, self.draws))
        log_p, log_q = posteriors.log_joint(z), posteriors.log_q(z)
        f = log_p - log_q
        held, beta = jax.lax.stop_gradient(f), self.ladder()
        value = learn = jnp.zeros(posteriors.rows)
        for k in range(self.parts):
            b, width = beta[k], beta[k + 1] - beta[k]
            weight = jax.nn.softmax(b * held, axis=1)
            mean = jnp.sum(weight * held, axis=1, keepdims=True)
            value = value + width * mean[:, 0]
            score = (1 - b) * log_q + b * log_p
            learn = learn + width * jnp.sum(weight * (f + (held - mean) * score), axis=1)
        return value + learn - jax.lax.stop_gradient(learn)
