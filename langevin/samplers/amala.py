r"""AMALA: Metropolis-adjusted Langevin whose proposals are long in the direction of the gradient.

    D_k = b g_k/max(b, |g_k|),      x* ~ N(x + a h D, 2Th Σ),      Σ = ε I + D Dᵀ,      g = ∇log p,

accepted with the full ratio, mean and covariance taken anew at x*. Rank one makes all of it O(d): a draw is
√ε ξ + D ζ with one more normal ζ, log det Σ = d log ε + log(1 + |D|²/ε), and

    vᵀ Σ⁻¹ v = |v⊥|²/ε + (D·v)²/(|D|² (ε + |D|²)),      v⊥ = v − D (D·v)/|D|²,

which is the formula of Sherman and Morrison without its cancellation. The law is p^(1/T), exactly; with Σ between ε
and ε + b²d the chain is geometrically ergodic. The scale of the covariance, δ_c, is 2Th, that of the drift, δ_m, is a h
(MALA is a = 1 with Σ = I). STANLEY kept the truncation alone: no D Dᵀ, no acceptance.

References
----------
Allassonnière & Kuhn (2015), Convergent stochastic expectation maximization algorithm with efficient sampling in high
    dimension. Application to deformable template model estimation (AMALA).
Sherman & Morrison (1950), Adjustment of an inverse matrix corresponding to a change in one element of a given matrix.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from langevin.core import noise, tree
from langevin.core.kernel import Kernel, audited, begin, kernel, metropolis, report
from langevin.core.record import nonnegative, positive
from langevin.core.schedule import Schedule, at
from langevin.core.target import HasDensity
from langevin.core.types import Law, PyTree, Scalar
from langevin.dynamics.metrics.truncated import Truncated


@kernel
class AMALA(Kernel):
    """Langevin proposals stretched along the gradient, accepted or rejected.

    step_size: h; the covariance is 2Th Σ.
    temperature: T; the chain targets p^(1/T).
    drift: a; the mean is x + a h D.
    bound: b, the largest |D_k|.
    floor: ε, the variance across the gradient.
    """

    step_size: Schedule = positive(default=1e-2)
    temperature: Schedule = positive(default=1.0)
    drift: float = nonnegative(default=1.0)
    bound: float = positive(default=10.0)
    floor: float = positive(default=1.0)
    requires = HasDensity
    audit = audited(step_size=0.05, bound=1.0, floor=0.5)

    def init(self, key, position, target):
        return begin(key, position, target)

    def cut(self, grad: PyTree) -> PyTree:
        """D: every coordinate no larger than b."""
        short = Truncated(self.bound, per="coordinate")
        return short.apply(short.geometry((), grad, grad), grad)

    def log_proposal(self, v: PyTree, D: PyTree) -> Scalar:
        """log N(v; 0, Σ) up to a constant."""
        along, square = tree.dot(D, v), tree.dot(D, D)
        share = along / jnp.where(square > 0, square, 1.0)
        across = tree.axpy(-share, D, v)
        form = tree.dot(across, across) / self.floor + along * share / (self.floor + square)
        return -0.5 * (form + jnp.log1p(square / self.floor))

    def step(self, key, state, target):
        k_across, k_along, k_eval, k_accept = jax.random.split(key, 4)
        h, T = at(self.step_size, state.count), at(self.temperature, state.count)
        s, here = jnp.sqrt(2 * T) * jnp.sqrt(h), self.cut(state.eval.grad)
        xi, zeta = noise.like(k_across, state.position), noise.like(k_along, jnp.zeros(()))
        kick = tree.axpy(zeta, here, tree.scale(jnp.sqrt(self.floor), xi))
        moved = tree.axpy(self.drift * h, here, tree.scale(s, kick))
        position = tree.add(state.position, moved)
        evaluation, feed = target.estimate(k_eval, state.feed, position)
        there = self.cut(evaluation.grad)
        back = tree.scale(-1 / s, tree.axpy(self.drift * h, there, moved))
        error = (state.eval.log_density - evaluation.log_density) / T
        error += self.log_proposal(kick, here) - self.log_proposal(back, there)
        new, probability = metropolis(k_accept, error, state._replace(position=position, eval=evaluation), state)
        new = new._replace(feed=feed, count=state.count + 1)
        return new, report(new, acceptance=probability, energy_error=error)

    def law(self) -> Law:
        return Law("exact", 0.0, None, "p^(1/T), exactly, on an exact target")
