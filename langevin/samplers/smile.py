r"""Microcanonical Langevin whose noise is that of the mini-batches, made isotropic.

At constant speed |u| = 1, in coordinates θ = Sφ, with ĝ the gradient on a fresh batch every step,

    F = Sᵀĝ/T + c,      u' = kick(u, F, ε f),      θ' = θ + ε S u',

`kick` the exact flow of `dynamics.isokinetic`. Let R be the covariance of Sᵀĝ. Noise in the force turns u and so takes
the place of a refreshment: direction is forgotten over L_noise = 2(d − 1)T²/(ε tr R/d). But unless R is isotropic the
stationary distribution is wrong for every ε, because the generator of noise Σ = ε R/(d − 1)² does not vanish on the
uniform law of u (it leaves (d(d − 1)/2)(uᵀΣu − tr Σ/d)): along an axis of R the temperature is T_i = R_ii/mean R.

So noise is added until it is isotropic. S whitens the strongest directions (`tune.whiten` finds S and R), and c ~ N(0,
v I − R/T²) raises the rest to v = max(level/T², 2(d − 1)/(εL)), the second of which makes direction be forgotten over L
where the batches' noise alone would take longer. For S = D(I + U(Λ − I)Uᵀ) R is taken as `spikes` along the columns of
U and as the diagonal `gradient_noise` on what is orthogonal to them. Kicks of finite size δ = ε|F|/(d − 1) heat by T(δ)
= (δ/2) coth(δ/2) where noise dominates; f = 2 artanh(δ/2)/δ compensates it. As ε → 0 the stationary distribution is
p^(1/T), as far as R is right and the same at every θ. One gradient a step.

A step that ends where the log density is not finite, or has fallen by more than `max_drop`, is undone: position and
evaluation go back together, and the velocity is drawn anew. 1 − acceptance is the rate of that. The form its authors
run is `baselines.PublishedSMILE`.

References
----------
Sommer, Robnik, Rügamer et al. (2026), Can microcanonical Langevin dynamics leverage mini-batch gradient noise? (SMILE).
Robnik & Seljak (2024), Fluctuation without dissipation: microcanonical Langevin Monte Carlo, §3.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from langevin.core import noise, tree
from langevin.core.kernel import Kernel, audited, begin, kernel, report
from langevin.core.record import nonnegative, positive, static
from langevin.core.schedule import Schedule, at
from langevin.core.types import Law
from langevin.dynamics.isokinetic import force_of, kick, moved, uniform
from langevin.dynamics.mass import IdentityMetric, LowRankMetric, Metric

HOT = 1.9  # the largest kick whose heating can be compensated: 2 artanh(δ/2) ends at 2


@kernel
class SMILE(Kernel):
    """Constant speed, turned by mini-batch gradients whose noise is whitened and completed.

    step_size: ε, a length in φ.
    length: L, over which direction is forgotten at the latest; inf: by the batches' noise alone.
    temperature: T; the chain targets p^(1/T).
    metric: S, with θ = Sφ: IdentityMetric(), DiagonalMetric(variance) or LowRankMetric(…).
    gradient_noise: variance of every coordinate of Sᵀĝ off the spikes, a flat vector or a number; 0: none known.
    spikes: variance of Sᵀĝ along each of the spikes of a LowRankMetric metric, a vector or a number.
    level: the variance that noise is filled up to, at least.
    max_drop: the largest fall of log density allowed in one step.
    cool: whether the heating by finite kicks is compensated.
    """

    step_size: Schedule = positive(default=0.01)
    length: float = positive(default=1.0)
    temperature: Schedule = positive(default=1.0)
    metric: Metric = IdentityMetric()
    gradient_noise: Any = 0.0
    spikes: Any = 0.0
    level: float = nonnegative(default=0.0)
    max_drop: float = positive(default=1e6)
    cool: bool = static(default=True)
    audit = audited(step_size=0.3, length=2.0)

    def init(self, key, position, target):
        k_begin, k_velocity = jax.random.split(key)
        return begin(k_begin, position, target, aux=uniform(k_velocity, position))

    def step(self, key, state, target):
        k_noise, k_eval, k_anew = jax.random.split(key, 3)
        h, T = at(self.step_size, state.count), at(self.temperature, state.count)
        force = force_of(self.metric, state.eval, T) + self.completion(k_noise, state.aux, h, T)
        velocity, _ = kick(state.aux, force, h * (cooled(h, force) if self.cool else 1.0))
        position = moved(self.metric, state.position, velocity, h)
        evaluation, feed = target.estimate(k_eval, state.feed, position)
        fine = tree.finite((position, evaluation)) & (state.eval.log_density - evaluation.log_density <= self.max_drop)
        there = (position, velocity, evaluation)
        here = (state.position, uniform(k_anew, state.position), state.eval)
        position, velocity, kept = tree.where(fine, there, here)
        new = state._replace(position=position, aux=velocity, eval=kept, feed=feed, count=state.count + 1)
        return new, report(new, acceptance=fine, n_data=evaluation.n_data)

    def completion(self, key, velocity, h, T):
        """c: what is missing of isotropic noise of variance v in the force."""
        d = velocity.size
        v = jnp.maximum(self.level / T**2, 2 * (d - 1) / (h * self.length))
        missing = lambda has: jnp.sqrt(jnp.maximum(v - has / T**2, 0.0))
        if not isinstance(self.metric, LowRankMetric):
            return missing(self.gradient_noise) * noise.like(key, velocity)
        k_rest, k_spikes = jax.random.split(key)
        U = self.metric.vectors
        rest = missing(self.gradient_noise) * noise.like(k_rest, velocity)
        spikes = missing(self.spikes) * noise.like(k_spikes, self.metric.stretch)
        return rest + U @ (spikes - U.T @ rest)

    def law(self) -> Law:
        words = "p^(1/T) as ε → 0, as far as gradient_noise is right and of one shape at every θ; bias O(ε)"
        return Law("order", 1.0, None, words)


def cooled(h, force):
    """f: by how much longer a kick of size δ is to be so that its noise does not heat."""
    delta = jnp.minimum(h * jnp.sqrt(jnp.sum(force**2)) / (force.size - 1), HOT)
    return jnp.where(delta > 1e-2, 2 * jnp.arctanh(delta / 2) / jnp.maximum(delta, 1e-2), 1 + delta**2 / 12)
