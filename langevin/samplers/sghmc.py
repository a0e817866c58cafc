r"""Stochastic gradient Hamiltonian Monte Carlo.

    r' = r + h (Sᵀĝ(θ) − C r) + √(2 C T h) ξ,      θ' = θ + h S r',

with the inverse mass matrix M⁻¹ = S Sᵀ; r is the momentum in the coordinates θ = S φ, in which the masses are 1.
Recipe on z = (θ, r), H = −log p(θ) + ½|r|²: D = [[0, 0], [0, C]], Q = [[0, −S], [Sᵀ, 0]], Γ = 0. The law is p^(1/T)
× N(0, T) as h → 0, with a bias O(h) of this Euler scheme; `Underdamped` splits the same dynamics to order 2 and is
the better choice unless fidelity to the paper counts.

Mini-batch noise of variance V a coordinate adds h²V to r every step, as if the injected noise were 2 (C + B) T h with
B = h V / 2T: heat B/C. `noise_estimate` is an estimate B̂ of B; the injected noise is then √(2 (C − B̂) T h) ξ, C −
B̂ cut off at 0, and what mini-batches and injection give together is 2 C T h again. `tune.gradient_noise` measures
it.

References
----------
Chen, Fox & Guestrin (2014), Stochastic gradient Hamiltonian Monte Carlo, eqs. (13)-(14), alg. 2.
Ma, Chen & Fox (2015), A complete recipe for stochastic gradient MCMC, §3.1.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from langevin.core import noise, tree
from langevin.core.kernel import audited, kernel
from langevin.core.noise import Noise
from langevin.core.record import nonnegative, positive, static
from langevin.core.schedule import Schedule, at
from langevin.dynamics.mass import IdentityMetric, Metric
from langevin.dynamics.recipe import Recipe


@kernel
class SGHMC(Recipe):
    """Langevin dynamics with momentum and friction, Euler discretised.

    step_size: h.
    temperature: T; the chain targets p^(1/T).
    friction: C, the decay rate of the momentum.
    noise_estimate: B̂ = h V / 2T, the friction that mini-batch noise of variance V of Sᵀĝ is worth: a number, or a
        tree like the position.
    metric: M⁻¹: IdentityMetric(), DiagonalMetric(variance), LowRankMetric(…) or DenseMetric(covariance).
    noise: "normal" or "rademacher".
    """

    step_size: Schedule = positive(default=1e-2)
    temperature: Schedule = nonnegative(default=1.0)
    friction: float = positive(default=1.0)
    noise_estimate: Any = nonnegative(default=0.0)
    metric: Metric = IdentityMetric()
    noise: Noise = static(default="normal")
    audit = audited(step_size=0.1, friction=2.0)

    def auxiliary(self, key, position):
        return tree.scale(jnp.sqrt(at(self.temperature, jnp.zeros((), jnp.int32))), noise.like(key, position))

    def kinetic(self, aux):
        return 0.5 * tree.dot(aux, aux)

    def D(self, z, memory, v):
        return tree.zeros_like(v[0]), tree.scale(self.friction, v[1])

    def sqrt_D(self, z, memory, v):
        # a number stands for a tree of that number
        left = lambda b, part: jax.tree.map(lambda n: jnp.sqrt(jnp.maximum(self.friction - b, 0.0)) * n, part)
        return tree.zeros_like(v[0]), jax.tree.map(left, self.noise_estimate, v[1])

    def Q(self, z, memory, v):
        return tree.scale(-1.0, self.metric.root(v[1])), self.metric.pull(v[0])
