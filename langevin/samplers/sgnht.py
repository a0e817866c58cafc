r"""Stochastic gradient Nosé–Hoover thermostat.

Recipe on z = (θ, r, ξ), H = −log p(θ) + ½|r|² + ½ d (ξ − A)²:

    D = [[0, 0, 0], [0, A I, 0], [0, 0, 0]],      Q = [[0, −I, 0], [I, 0, r/d], [0, −rᵀ/d, 0]],      Γ = (0, 0, −1),

that is r' = r + h (ĝ − ξ r) + √(2 A T h) n, θ' = θ + h r', ξ' = ξ + h (|r|²/d − T). The friction ξ grows until the
kinetic temperature is T, which absorbs mini-batch noise of unknown constant size. The law of θ is p^(1/T) as h → 0.

References
----------
Ding, Fang, Babbush, Chen, Skeel & Neven (2014), Bayesian sampling using stochastic gradient thermostats, alg. 2.
Ma, Chen & Fox (2015), A complete recipe for stochastic gradient MCMC, §3.1.
"""

from __future__ import annotations

import jax.numpy as jnp

from langevin.core import noise, tree
from langevin.core.kernel import audited, kernel
from langevin.core.noise import Noise
from langevin.core.record import nonnegative, positive, static
from langevin.core.schedule import Schedule, at
from langevin.dynamics.recipe import Recipe


@kernel
class SGNHT(Recipe):
    """SGHMC whose friction adapts to the gradient noise.

    step_size: h.
    temperature: T; the chain targets p^(1/T).
    diffusion: A, the injected noise and the mean friction.
    noise: "normal" or "rademacher".
    """

    step_size: Schedule = positive(default=1e-2)
    temperature: Schedule = nonnegative(default=1.0)
    diffusion: float = positive(default=1.0)
    noise: Noise = static(default="normal")
    audit = audited(step_size=0.1, diffusion=2.0)

    def auxiliary(self, key, position):
        T = at(self.temperature, jnp.zeros((), jnp.int32))
        return tree.scale(jnp.sqrt(T), noise.like(key, position)), jnp.asarray(self.diffusion, jnp.float32)

    def kinetic(self, aux):
        r, xi = aux
        return 0.5 * tree.dot(r, r) + 0.5 * tree.size(r) * (xi - self.diffusion) ** 2

    def D(self, z, memory, v):
        return tree.zeros_like(v[0]), (tree.scale(self.diffusion, v[1][0]), jnp.zeros(()))

    def sqrt_D(self, z, memory, v):
        return tree.zeros_like(v[0]), (tree.scale(jnp.sqrt(self.diffusion), v[1][0]), jnp.zeros(()))

    def Q(self, z, memory, v):
        r, d = z[1][0], tree.size(z[0])
        v_theta, (v_r, v_xi) = v
        return tree.scale(-1.0, v_r), (tree.axpy(v_xi / d, r, v_theta), -tree.dot(r, v_r) / d)

    def gamma(self, z, memory):
        zero = tree.zeros_like(z)
        return zero[0], (zero[1][0], -jnp.ones(()))
