r"""Underdamped Langevin dynamics by splitting: a scheme is a word over A, B and O.

    A: θ ← θ + a h S r        B: r ← r + b h Sᵀĝ(θ)        O: r ← c r + √(T (1 − c²)) ξ,   c = e^{−γ o h},

with the inverse mass matrix M⁻¹ = S Sᵀ; r is the momentum in the coordinates θ = S φ, in which the masses are 1. Each
letter takes an equal share of h (in BAOAB: a = b = ½, o = 1). A gradient is evaluated when B needs one at a new
position, so every word here costs one gradient a step. Palindromes (BAOAB, OBABO, ABOBA) have bias O(h²); BAOAB is
exact in position for Gaussians; BAOA is a cyclic permutation of BAOAB's letters with a whole kick, conjugate to it, so
averages of θ are O(h²) too. The law is p^(1/T) × N(0, T). After a word that ends in A (ABOBA) `eval` is where the last
B looked, not at `position`.

References
----------
Leimkuhler & Matthews (2013), Rational construction of stochastic numerical methods for molecular sampling, §2.
Leimkuhler & Matthews (2015), Molecular Dynamics, §7.3 (error of the splittings).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from langevin.core import noise, tree
from langevin.core.kernel import Kernel, audited, begin_moving, kernel, report
from langevin.core.noise import Noise
from langevin.core.record import nonnegative, positive, static
from langevin.core.schedule import Schedule, at
from langevin.core.types import Law
from langevin.dynamics.mass import IdentityMetric, Metric


@kernel
class Underdamped(Kernel):
    """Langevin dynamics with momentum, split into exactly solvable parts.

    step_size: h.
    temperature: T; the chain targets p^(1/T).
    friction: γ, the decay rate of the momentum.
    scheme: a word over A, B, O: "BAOAB", "OBABO", "ABOBA", "BAOA" …
    noise: "normal" or "rademacher".
    metric: M⁻¹: IdentityMetric(), DiagonalMetric(variance), LowRankMetric(…) or DenseMetric(covariance).
    """

    step_size: Schedule = positive(default=1e-2)
    temperature: Schedule = nonnegative(default=1.0)
    friction: float = positive(default=1.0)
    scheme: str = static(default="BAOAB")
    noise: Noise = static(default="normal")
    metric: Metric = IdentityMetric()
    audit = audited(step_size=0.3, friction=2.0)

    def __post_init__(self):
        if set(self.scheme) != set("ABO"):
            raise ValueError(f"Underdamped: scheme is {self.scheme!r}; it must be a word with all of A, B and O.")

    def init(self, key, position, target):
        return begin_moving(key, position, target, self.temperature)

    def step(self, key, state, target):
        h, T = at(self.step_size, state.count), at(self.temperature, state.count)
        share = {letter: h / self.scheme.count(letter) for letter in "ABO"}
        keys = iter(jax.random.split(key, self.scheme.count("O") + self.scheme.count("B") + 1))
        position, r, evaluation, feed = state.position, state.aux, state.eval, state.feed
        moved, n_grad = False, 0
        for letter in self.scheme:
            if letter == "A":
                position, moved = tree.axpy(share["A"], self.metric.root(r), position), True
            elif letter == "O":
                c = jnp.exp(-self.friction * share["O"])
                xi = noise.like(next(keys), r, self.noise)
                r = tree.axpy(jnp.sqrt(T * (1 - c**2)), xi, tree.scale(c, r))
            else:
                if moved:
                    evaluation, feed = target.estimate(next(keys), feed, position)
                    moved, n_grad = False, n_grad + 1
                r = tree.axpy(share["B"], self.metric.pull(evaluation.grad), r)
        if moved and self.scheme[0] == "B":
            evaluation, feed = target.estimate(next(keys), feed, position)
            n_grad += 1
        new = state._replace(position=position, aux=r, eval=evaluation, feed=feed, count=state.count + 1)
        return new, report(new, n_grad=n_grad)

    def law(self) -> Law:
        symmetric = self.scheme == self.scheme[::-1] or self.scheme == "BAOA"
        order = 2.0 if symmetric else 1.0
        return Law("order", order, None, f"p^(1/T) as h → 0; bias O(h^{order:.0f}), plus O(h) from mini-batch noise")
