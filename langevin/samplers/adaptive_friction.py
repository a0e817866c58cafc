r"""Adaptive friction: Hamiltonian Monte Carlo with stochastic gradients whose friction follows the gradient.

With H = −log p(θ) + ½|r|² and one friction for every coordinate,

    C_i(θ) = γ √(g_i(θ)² + λ²),

a step is the palindrome O B A B O, the gradient evaluated once, between A and the second B:

    O: r ← c∘r + √(T (1 − c²))∘ξ,   c = e^{−C(θ) h/2}          B: r ← r + (h/2) ĝ(θ)          A: θ ← θ + h r.

Recipe on z = (θ, r): D = [[0, 0], [0, C(θ)]], Q = [[0, −I], [I, 0]] and Γ = 0 *whatever C(θ)*, for D acts on r and
depends on θ alone. So where preconditioning by the gradient needs ∇·D, friction by the gradient needs nothing: θ
stands still during O, which leaves N(0, T) as it is for any C. The law is p^(1/T) × N(0, T), and the bias O(h²), as
of OBABO with constant friction. As C → ∞ the position follows the Riemannian dynamics with D = 1/C, its Γ included.

For the same reason one mini-batch may serve friction and kick: O keeps N(0, T) whatever batch C came from, so there
is no E[C(ĝ) ĝ] in the law; what is left is the heat O(h) that mini-batch noise adds to any kernel without a
thermostat. The friction must be that of the *present* gradient: a moving average remembers r, and is biased. It sets
the damping and not the stable step, which is h < 2/ω for the stiffest frequency ω as ever.

That a friction C(θ) keeps the Gibbs law is known from the physics of inhomogeneous baths (Sachs, Leimkuhler & Danos)
and from the recipe; that the *gradient* may set it, from one mini-batch with the kick, is derived and tested here.

References
----------
Sachs, Leimkuhler & Danos (2017), Langevin dynamics with variable coefficients and nonconservative forces, §2.
Ma, Chen & Fox (2015), A complete recipe for stochastic gradient MCMC, eqs. (3)-(5).
Leimkuhler & Matthews (2013), Rational construction of stochastic numerical methods for molecular sampling, §2 (OBABO).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from langevin.core import noise, tree
from langevin.core.kernel import Kernel, audited, begin_moving, kernel, report
from langevin.core.noise import Noise
from langevin.core.record import nonnegative, positive, static
from langevin.core.schedule import Schedule, at
from langevin.core.types import Law


@kernel
class AdaptiveFriction(Kernel):
    """Langevin dynamics with momentum, damped where the gradient is steep.

    step_size: h.
    temperature: T; the chain targets p^(1/T).
    friction: γ, friction per unit of gradient.
    floor: λ, the gradient below which friction is constant; a number or a tree like the position.
    noise: "normal" or "rademacher".
    """

    step_size: Schedule = positive(default=1e-2)
    temperature: Schedule = nonnegative(default=1.0)
    friction: float = positive(default=1.0)
    floor: Any = positive(default=1.0)
    noise: Noise = static(default="normal")
    audit = audited(step_size=0.3)

    def init(self, key, position, target):
        return begin_moving(key, position, target, self.temperature)

    def step(self, key, state, target):
        k_before, k_after, k_eval = jax.random.split(key, 3)
        h, T = at(self.step_size, state.count), at(self.temperature, state.count)

        def damped(key, r, grad):
            def one(r, g, xi, floor):
                c = jnp.exp(-0.5 * h * self.friction * jnp.sqrt(g**2 + floor**2))
                return (c * r + jnp.sqrt(T * (1 - c**2)) * xi).astype(r.dtype)

            return jax.tree.map(one, r, grad, noise.like(key, r, self.noise), tree.fill(self.floor, r))

        r = tree.axpy(0.5 * h, state.eval.grad, damped(k_before, state.aux, state.eval.grad))
        position = tree.axpy(h, r, state.position)
        evaluation, feed = target.estimate(k_eval, state.feed, position)
        r = damped(k_after, tree.axpy(0.5 * h, evaluation.grad, r), evaluation.grad)
        new = state._replace(position=position, aux=r, eval=evaluation, feed=feed, count=state.count + 1)
        return new, report(new)

    def law(self) -> Law:
        return Law("order", 2.0, None, "p^(1/T) as h → 0; bias O(h²), plus O(h) from mini-batch noise")
