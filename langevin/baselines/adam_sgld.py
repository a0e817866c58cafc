r"""SGLD with Adam's step added to the drift: a sampler of another law.

    m = β₁ m + (1 − β₁) ĝ,   v = β₂ v + (1 − β₂) ĝ²,      θ' = θ + h (ĝ + a m/√(v + λ)) + √(2 T h) ξ.

The noise is constant, so there is no Γ to drop: the added drift is the bias. As h → 0 at fixed β it becomes
a g/√(g² + λ), and for independent coordinates the law is (p e^{aW})^(1/T), W = Σ_i ∫ g_i/√(g_i² + λ) dθ_i: on
N(0, 1) with λ → 0, e^{−θ²/2 − a|θ|}. Take `PSGLD`, whose corrected form adapts and converges to p.

References
----------
Kim, Song & Liang (2020), Stochastic gradient Langevin dynamics algorithms with adaptive drifts, alg. 2.
Rensmeyer & Niggemann (2024), On the convergence of locally adaptive and scalable diffusion-based sampling methods, §3.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from langevin.core import noise, tree
from langevin.core.kernel import Kernel, audited, begin, kernel, report, warn_once
from langevin.core.noise import Noise
from langevin.core.record import nonnegative, positive, record, static
from langevin.core.schedule import Schedule, at
from langevin.core.target import Exact
from langevin.core.types import Law
from langevin.dynamics.uncorrected import refuse_correction


@kernel
class AdamSGLD(Kernel):
    """SGLD with a multiple of Adam's step in the drift; it sharpens the law.

    step_size: h.
    temperature: T of the noise.
    weight: a, how much of Adam's step is added.
    momentum: β₁ of the mean of the gradient.
    decay: β₂ of the mean of its square.
    floor: λ, added to the mean square.
    correction: "none", the only one: there is no Γ, the added drift is the bias.
    noise: "normal" or "rademacher".
    """

    step_size: Schedule = positive(default=1e-3)
    temperature: Schedule = nonnegative(default=1.0)
    weight: float = nonnegative(default=1.0)
    momentum: float = nonnegative(default=0.9)
    decay: float = nonnegative(default=0.999)
    floor: float = positive(default=1e-8)
    correction: str = static(default="none")
    noise: Noise = static(default="normal")
    audit = audited(step_size=0.05, momentum=0.0, decay=0.0, floor=1.0)

    def __post_init__(self):
        refuse_correction("AdamSGLD", self.correction, "PSGLD, which adapts and has a correction")
        warn_once(f"AdamSGLD converges to {self.law().words}.")

    def init(self, key, position, target):
        zero = tree.zeros_like(position)
        return begin(key, position, target, memory=(zero, zero))

    def step(self, key, state, target):
        k_noise, k_eval = jax.random.split(key)
        h, T = at(self.step_size, state.count), at(self.temperature, state.count)
        b1, b2 = self.momentum, self.decay
        grad, (m, v) = state.eval.grad, state.memory
        m = jax.tree.map(lambda m, g: (b1 * m + (1 - b1) * g).astype(m.dtype), m, grad)
        v = jax.tree.map(lambda v, g: (b2 * v + (1 - b2) * g**2).astype(v.dtype), v, grad)
        pull = lambda g, m, v: g + self.weight * m * jax.lax.rsqrt(v + self.floor)
        moved = lambda u, g, m, v, n: (u + h * pull(g, m, v) + jnp.sqrt(2 * T) * jnp.sqrt(h) * n).astype(u.dtype)
        xi = noise.like(k_noise, state.position, self.noise)
        position = jax.tree.map(moved, state.position, grad, m, v, xi)
        evaluation, feed = target.estimate(k_eval, state.feed, position)
        new = state._replace(position=position, memory=(m, v), eval=evaluation, feed=feed, count=state.count + 1)
        return new, report(new)

    def law(self) -> Law:
        words = (
            "(p e^{aW})^(1/T), W the integral of g/√(g² + λ): p sharpened by Adam's drift, not p^(1/T) (as h → 0, for "
            "independent coordinates); take PSGLD, whose corrected form adapts and converges to p"
        )
        force = partial(Pulled, weight=self.weight, floor=self.floor, temperature=self.temperature)
        return Law("wrong", 1.0, force, words)


NODES = 64


@record
class Pulled(Exact):
    """The law AdamSGLD has: log p/T plus the work of the added force along the way from the origin.

    target: p.
    weight: a.
    floor: λ.
    temperature: T.
    """

    target: Any
    weight: Any = 1.0
    floor: Any = 1e-8
    temperature: Any = 1.0

    def log_density(self, position):
        grad = jax.grad(self.target.log_density)

        def work(s):
            g = grad(tree.scale(s, position))
            return tree.dot(jax.tree.map(lambda g: g * jax.lax.rsqrt(g**2 + self.floor), g), position)

        # midpoints: the force jumps where the gradient vanishes, often at the end of the way
        total = jnp.mean(jax.vmap(work)((jnp.arange(NODES) + 0.5) / NODES))
        T = at(self.temperature, jnp.zeros((), jnp.int32))
        return (self.target.log_density(position) + self.weight * total) / T
