r"""Langevin dynamics on a rescaled clock: small steps where the gradient has been large, and weights that undo it.

The clock of the numbers, τ, and that of the physics, t, are tied by dt = ψ(ζ) dτ, where ζ follows the size of the
gradient:

    dζ = α (|g(θ)|²/(d s²) − ζ) dτ,      ψ(ζ) = m (ζ^ρ + M)/(ζ^ρ + m)   falling from M at ζ = 0 to m.

A step of h in τ is the palindrome Z B A O A B Z: Z relaxes ζ for h/2 with the gradient at hand, and B A O A B is
BAOAB of r, θ with the step ψ(ζ) h,

    Z: ζ ← c ζ + (1 − c)|ĝ|²/(d s²),   c = e^{−αh/2};          B: r ← r + ½ψh ĝ;          A: θ ← θ + ½ψh r;
    O: r ← a r + √(T (1 − a²)) ξ,   a = e^{−γψh}.

Averages weighted by ψ are averages over t, so log_weight = log ψ(ζ). Why that is right (derived here in two lines):
seen in t, (θ, r) is plain Langevin dynamics, on which ζ has no influence, so its law over t is p^(1/T) × N(0, T)
*whatever* drives ζ, memory included; and the law over τ is the law over t divided by ψ, since dτ = dt/ψ. For ψ a
function of θ alone this is the time-changed diffusion dθ = ψ b dτ + √ψ σ dW with law p/ψ. No divergence term arises,
and none is dropped. The palindrome makes the bias O(h²). The weights lie between m and M, so the effective sample
size is at least 4 mM/(m + M)² of the draws.

The authors' ζ is 1/α of this one, their monitor |g|² up to a factor; with m = 1/M, ψ(1) = 1: h is the step where the
root-mean-square gradient has been s.

References
----------
Leimkuhler, Lohmann & Whalley (2025), A Langevin sampling algorithm inspired by the Adam optimizer (ZBAOABZ and ψ).
Rajpal, Leimkuhler & Jiang (2025), arXiv:2511.11666 (the overdamped SA-SGLD).
Leroy, Leimkuhler, Latz & Higham (2024), Adaptive stepsize algorithms for Langevin dynamics (without weights).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from langevin.core import noise, tree
from langevin.core.kernel import Kernel, audited, begin, kernel, report
from langevin.core.noise import Noise
from langevin.core.record import nonnegative, positive, static
from langevin.core.schedule import Schedule, at
from langevin.core.types import Law, State


@kernel
class SamAdams(Kernel):
    """Langevin dynamics with momentum on a clock that slows where gradients are large; draws are weighted.

    step_size: h, the step on the clock τ.
    temperature: T; the weighted draws target p^(1/T).
    friction: γ, the decay rate of the momentum.
    relaxation: α, the rate at which ζ forgets.
    scale: s, the root-mean-square gradient at which ζ is 1.
    slowest: m, the least factor on a step.
    fastest: M, the largest.
    power: ρ, how sharply the step answers.
    noise: "normal" or "rademacher".
    """

    step_size: Schedule = positive(default=1e-2)
    temperature: Schedule = nonnegative(default=1.0)
    friction: float = positive(default=1.0)
    relaxation: float = positive(default=1.0)
    scale: float = positive(default=1.0)
    slowest: float = positive(default=0.1)
    fastest: float = positive(default=10.0)
    power: float = positive(default=0.25)
    noise: Noise = static(default="normal")
    audit = audited(step_size=0.2, friction=2.0)

    def monitor(self, grad):
        """|g|²/(d s²)."""
        return tree.dot(grad, grad) / (tree.size(grad) * self.scale**2)

    def pace(self, zeta):
        """ψ(ζ)."""
        z = zeta**self.power
        return self.slowest * (z + self.fastest) / (z + self.slowest)

    def init(self, key, position, target):
        k_eval, k_aux = jax.random.split(key)
        T = at(self.temperature, jnp.zeros((), jnp.int32))
        state = begin(k_eval, position, target, tree.scale(jnp.sqrt(T), noise.like(k_aux, position)))
        return state._replace(memory=self.monitor(state.eval.grad))

    def step(self, key, state, target):
        k_noise, k_eval = jax.random.split(key)
        h, T = at(self.step_size, state.count), at(self.temperature, state.count)
        keep = jnp.exp(-0.5 * self.relaxation * h)
        relaxed = lambda zeta, grad: keep * zeta + (1 - keep) * self.monitor(grad)
        zeta = relaxed(state.memory, state.eval.grad)
        dt = self.pace(zeta) * h
        c = jnp.exp(-self.friction * dt)
        r = tree.axpy(0.5 * dt, state.eval.grad, state.aux)
        position = tree.axpy(0.5 * dt, r, state.position)
        r = tree.axpy(jnp.sqrt(T * (1 - c**2)), noise.like(k_noise, r, self.noise), tree.scale(c, r))
        position = tree.axpy(0.5 * dt, r, position)
        evaluation, feed = target.estimate(k_eval, state.feed, position)
        r = tree.axpy(0.5 * dt, evaluation.grad, r)
        zeta = relaxed(zeta, evaluation.grad)
        new = State(position, r, zeta, evaluation, feed, state.count + 1)
        return new, report(new, log_weight=jnp.log(self.pace(zeta)))

    def law(self) -> Law:
        words = "p^(1/T) for draws weighted by e^log_weight, as h → 0; bias O(h²), plus O(h) from mini-batch noise"
        return Law("order", 2.0, None, words)
