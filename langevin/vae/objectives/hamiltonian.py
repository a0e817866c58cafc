r"""The Hamiltonian variational autoencoder: tempered leapfrog steps as a flow, without a reverse network.

    z_0 ~ q_φ(z | x),  ρ_0 = γ_0/√β_0,  γ_0 ~ N(0, I);   K times:  a leapfrog step of −log p_θ(x, z) + ½|ρ|² with step
    sizes ε, one a coordinate, then ρ ← √(β_{k−1}/β_k) ρ;   β_K = 1.

The map has the Jacobian β_0^{d/2}, which the density of ρ_0 takes away again, so that

    log w = log p_θ(x, z_K) − log q_φ(z_0 | x) − ½ |ρ_K|² + ½ |γ_0|²,

and E log mean w is a bound. K = 0 is the ELBO (of S draws: IWAE). The schedule is quadratic,
1/√β_k = (1 − 1/√β_0) k²/K² + 1/√β_0, and β_0 and ε are learned.

References
----------
Caterini, Doucet & Sejdinovic (2018), Hamiltonian variational auto-encoder, algorithm 1, eqs. (8)-(10).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from langevin.core import noise
from langevin.core.record import positive, record, static
from langevin.evidence.weights import log_mean_exp


@record
class Hamiltonian:
    """HVAE.

    steps: K; 0 is the ELBO.
    draws: S.
    step_size: ε to begin with.
    cold: √β_0 to begin with, in (0, 1): momenta start 1/√β_0 times as large; 1 for no tempering at all.
    longest: the largest ε that can be learned.
    """

    steps: int = static(default=5)
    draws: int = static(default=1)
    step_size: float = positive(default=0.05)
    cold: float = positive(default=0.8)
    longest: float = positive(default=0.5)

    def __post_init__(self):
        if self.steps < 0 or self.draws < 1:
            raise ValueError(
                f"Hamiltonian: {self.steps} steps and {self.draws} draws; steps must be 0 or more, draws 1 or more."
            )
        if not isinstance(self.cold, jax.core.Tracer) and not (self.cold <= 1 and self.step_size < self.longest):
            raise ValueError(
                f"Hamiltonian: cold is {self.cold} and step_size {self.step_size}; cold must be at most 1 and "
                f"step_size below longest, {self.longest}."
            )

    def init(self, key, model):
        logit = jax.scipy.special.logit
        if not self.steps:
            return ()
        learned: dict[str, Any] = {"step": jnp.full(model.latent, logit(self.step_size / self.longest))}
        return learned | ({} if self.cold == 1 else {"cold": logit(jnp.asarray(self.cold))})

    def values(self, key, posteriors, params):
        return log_mean_exp(self.log_weights(key, posteriors, params), axis=1)

    def log_weights(self, key, posteriors, params):
        """log w of every draw, (row, draw)."""
        k_draw, k_momentum = jax.random.split(key)
        start = posteriors.draw(k_draw, self.draws)
        if not self.steps:
            return posteriors.log_weight(start)
        root = jax.nn.sigmoid(params["cold"]) if "cold" in params else jnp.ones(())
        step = self.longest * jax.nn.sigmoid(params["step"])[None, None]
        k = jnp.arange(self.steps + 1)
        temper = (1 - 1 / root) * (k / self.steps) ** 2 + 1 / root  # 1/√β_k
        first = noise.like(k_momentum, start)
        slope = jax.grad(lambda z: jnp.sum(posteriors.log_joint(z)))

        def leap(carry, ratio):
            z, rho, force = carry
            rho = rho + 0.5 * step * force
            z = z + step * rho
            force = slope(z)
            return (z, ratio * (rho + 0.5 * step * force), force), None

        carry = start, first * temper[0], slope(start)
        (z, rho, _), _ = jax.lax.scan(leap, carry, temper[1:] / temper[:-1])
        kinetic = 0.5 * jnp.sum(first**2 - rho**2, axis=-1)
        return posteriors.log_joint(z) - posteriors.log_q(start) + kinetic
