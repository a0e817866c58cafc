r"""Microcanonical Langevin whose noise is that of the mini-batches, made isotropic.

At constant speed |u| = 1, in coordinates θ = Sφ, with ĝ the gradient on a fresh batch every step,

    F = Sᵀĝ/T + c,      u' = kick(u, F, ε f),      θ' = θ + ε S u',

`kick` the exact flow of `core.isokinetic`. Let R be the covariance of Sᵀĝ. Noise in the force turns u and so takes the
place of a refreshment: direction is forgotten over L_noise = 2(d − 1)T²/(ε tr R/d). But unless R is isotropic the law
is wrong for every ε, for the generator of noise Σ = ε R/(d − 1)² does not vanish on the uniform law of u (it leaves
(d(d − 1)/2)(uᵀΣu − tr Σ/d)): along an axis of R the temperature is T_i = R_ii/mean R.

So the noise is completed. S whitens the strongest of it (`tune.whiten` finds S and R), and c ~ N(0, v I − R/T²) fills
up the rest to v = max(level/T², 2(d − 1)/(εL)), the second of which makes direction be forgotten over L where the
batches' noise alone would take longer. For S = D(I + U(Λ − I)Uᵀ) R is taken as `spikes` along the columns of U and as
the diagonal `gradient_noise` on what is orthogonal to them. Kicks of finite size δ = ε|F|/(d − 1) heat by
T(δ) = (δ/2) coth(δ/2) where noise dominates; f = 2 artanh(δ/2)/δ takes that back. As ε → 0 the law is p^(1/T), as far
as R is right and of one shape at every θ. One gradient a step.

A step that ends where the log density is not finite, or has fallen by more than `fall`, is undone: position and
evaluation go back together, and the velocity is drawn anew. 1 − acceptance is the rate of that.

variant="published" is SMILE / pSMILE as its authors run it, for comparison. The batches' noise is all there is;

    q = clip(sd, 10⁻², 10⁴)/rms,   S = 1/q,   a McLachlan step on one batch,
    Δ = |Σ ΔK + log p̂₋ − log p̂|, the log densities of two batches.

A Gamma law is fitted to Δ by its running mean and deviation. If Δ is above the `reset` quantile the position goes back
and the velocity becomes 0 (the gradient stays where it was refused); above the quantile 1 − 2a/3 ε shrinks by
`strength`, below a/3 it grows. sd is the running deviation of ĝ from its running mean. Nothing is ever frozen.

References
----------
Sommer, Robnik, Rügamer et al. (2026), Can microcanonical Langevin dynamics leverage mini-batch gradient noise? (SMILE).
Robnik & Seljak (2024), Fluctuation without dissipation: microcanonical Langevin Monte Carlo, §3.
Wilson & Hilferty (1931), The distribution of chi-square (quantiles of the Gamma law).
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from langevin.core import noise, tree
from langevin.core.kernel import begin, kernel, report, warn_once
from langevin.core.record import nonnegative, positive, record, static
from langevin.core.schedule import Schedule, at
from langevin.core.target import look
from langevin.core.types import Law
from langevin.dynamics.integrators import INTEGRATORS
from langevin.dynamics.isokinetic import Point, dimension, force_of, glide, kick, moved, uniform
from langevin.dynamics.mass import DiagonalMetric, IdentityMetric, LowRankMetric, Metric

HOT = 1.9  # the largest kick whose heat can be taken back: 2 artanh(δ/2) ends at 2


@record
class Quantiles:
    """The tuner of the published variant.

    reset: a step whose energy error is above this quantile is undone; 1: never.
    share: a, the probability outside of which the step size changes; 0: never.
    strength: by how much it changes.
    rate: of the running mean and deviation of the energy error.
    scaled: whether coordinates are scaled by the running deviation of their gradient (pSMILE).
    """

    reset: float = positive(default=0.98)
    share: float = nonnegative(default=0.1)
    strength: float = nonnegative(default=0.02)
    rate: float = positive(default=0.01)
    scaled: bool = static(default=True)


class Running(NamedTuple):
    """What the published variant carries: ε, mean and deviation of the energy error, steps, and mean and sd of ĝ."""

    step_size: jax.Array
    mean: jax.Array
    deviation: jax.Array
    time: jax.Array
    grad: Any
    sd: Any


@kernel
class SMILE:
    """Constant speed, turned by mini-batch gradients whose noise is whitened and completed.

    step_size: ε, a length in φ.
    length: L, over which direction is forgotten at the latest; inf: by the batches' noise alone.
    temperature: T; the chain targets p^(1/T).
    metric: S, with θ = Sφ: IdentityMetric(), DiagonalMetric(variance) or LowRankMetric(…).
    gradient_noise: variance of every coordinate of Sᵀĝ off the spikes, a flat vector or a number; 0: none known.
    spikes: variance of Sᵀĝ along each of the spikes of a LowRankMetric metric, a vector or a number.
    level: the variance that noise is filled up to, at least.
    fall: the largest fall of log density allowed in one step.
    cool: whether the heat of finite kicks is taken back.
    variant: "corrected", or "published" for the authors' form.
    tuner: of the published variant.
    """

    step_size: Schedule = positive(default=0.01)
    length: float = positive(default=1.0)
    temperature: Schedule = positive(default=1.0)
    metric: Metric = IdentityMetric()
    gradient_noise: Any = 0.0
    spikes: Any = 0.0
    level: float = nonnegative(default=0.0)
    fall: float = positive(default=1e6)
    cool: bool = static(default=True)
    variant: Literal["corrected", "published"] = static(default="corrected")
    tuner: Quantiles = Quantiles()

    def __post_init__(self):
        if self.variant not in ("corrected", "published"):
            raise ValueError(f"SMILE: variant is {self.variant!r}; it must be 'corrected' or 'published'.")
        if self.variant == "published":
            warn_once(f"SMILE(variant='published') converges to {self.law().words}.")

    def init(self, key, position, target):
        k_begin, k_velocity = jax.random.split(key)
        if self.variant == "corrected":
            return begin(k_begin, position, target, aux=uniform(k_velocity, position))
        state = begin(k_begin, position, target, aux=jnp.zeros(dimension(position), jnp.float32))
        one, zero, ones = jnp.ones(()), jnp.zeros(()), jax.tree.map(jnp.ones_like, position)
        eps = jnp.asarray(at(self.step_size, state.count), jnp.float32)
        return state._replace(memory=Running(eps, zero, zero, one, ones, ones))

    def step(self, key, state, target):
        return (self._corrected if self.variant == "corrected" else self._published)(key, state, target)

    def law(self) -> Law:
        if self.variant == "published":
            words = (
                "no law that is known: temperature is V_i/mean V along the axes of the gradient noise that are left, "
                "and the step size never settles; take variant='corrected'"
            )
            return Law("wrong", 0.0, None, words)
        words = "p^(1/T) as ε → 0, as far as gradient_noise is right and of one shape at every θ; bias O(ε)"
        return Law("order", 1.0, None, words)

    # --- corrected ----------------------------------------------------------------------------------------------

    def _corrected(self, key, state, target):
        k_noise, k_eval, k_anew = jax.random.split(key, 3)
        h, T = at(self.step_size, state.count), at(self.temperature, state.count)
        force = force_of(self.metric, state.eval, T) + self.completion(k_noise, state.aux, h, T)
        velocity, _ = kick(state.aux, force, h * (cooled(h, force) if self.cool else 1.0))
        position = moved(self.metric, state.position, velocity, h)
        evaluation, feed = look(k_eval, target, state.feed, position)
        fine = tree.finite((position, evaluation)) & (state.eval.log_density - evaluation.log_density <= self.fall)
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

    # --- published ----------------------------------------------------------------------------------------------

    def _published(self, key, state, target):
        batch, feed = target.draw(key, state.feed)
        past, tuner, T = state.memory, self.tuner, at(self.temperature, state.count)
        scale = _scaled(past.sd) if tuner.scaled else jax.tree.map(jnp.ones_like, past.sd)
        metric = DiagonalMetric(jax.tree.map(lambda q: q**-2, scale))
        evaluate = lambda position: _clipped(target.evaluate(batch, position))
        # the gradient is kept as it was scaled when it was found
        before = state.eval._replace(grad=tree.mul(scale, state.eval.grad))
        start = Point(state.position, state.aux, before)
        end, error = glide(INTEGRATORS["mclachlan"], evaluate, metric, start, past.step_size, T)
        error = jnp.abs(error)
        quantile = lambda p: _gamma_quantile(p, past.mean, past.deviation)
        settled = past.time >= 10
        undone = settled & (error > quantile(tuner.reset))
        position = tree.where(undone, state.position, end.position)
        velocity = jnp.where(undone, 0.0, end.velocity)
        memory = self._adapted(past, error, quantile, settled, end.eval.grad)
        evaluation = end.eval._replace(grad=metric.pull(end.eval.grad))
        new = state._replace(
            position=position, aux=velocity, memory=memory, eval=evaluation, feed=feed, count=state.count + 1
        )
        return new, report(new, acceptance=~undone, energy_error=error, n_grad=2)

    def _adapted(self, past: Running, error, quantile, settled, grad) -> Running:
        tuner, b = self.tuner, self.tuner.rate
        mean = jnp.clip(jnp.where(past.time < 3, error, (1 - b) * past.mean + b * error), 1e-6, 1e6)
        square = (1 - b) * past.deviation**2 * (past.time != 1) + b * (error - mean) ** 2
        grown = jnp.where(past.time < 5, 1.0, 1 - 0.5 ** (past.time - 4))
        deviation = jnp.clip(jnp.sqrt(square / grown), 1e-6, 1e7)
        down = jnp.where(error > quantile(1 - 2 * tuner.share / 3), 1 - tuner.strength, 1.0)
        up = jnp.where(error < quantile(tuner.share / 3), 1 + tuner.strength, 1.0)
        eps = jnp.where(settled, jnp.clip(past.step_size * down * up, 1e-8, 10.0), past.step_size)
        m = jax.tree.map(lambda m, g: jnp.clip(0.99 * m + 0.01 * g, -1e6, 1e6).astype(m.dtype), past.grad, grad)
        sd = jax.tree.map(
            lambda s, g, m: jnp.sqrt(jnp.maximum(0.99 * s**2 + 0.01 * (g - m) ** 2, 1e-7)).astype(s.dtype),
            past.sd, grad, m,
        )  # fmt: skip
        return Running(eps, mean, deviation, past.time + 1, m, sd)


def cooled(h, force):
    """f: by how much longer a kick of size δ is to be so that its noise does not heat."""
    delta = jnp.minimum(h * jnp.sqrt(jnp.sum(force**2)) / (force.size - 1), HOT)
    return jnp.where(delta > 1e-2, 2 * jnp.arctanh(delta / 2) / jnp.maximum(delta, 1e-2), 1 + delta**2 / 12)


def _scaled(sd):
    """q: the deviations of the gradient, clipped, of mean square one."""
    clipped = jax.tree.map(lambda s: jnp.clip(s, 1e-2, 1e4), sd)
    rms = jnp.sqrt(tree.dot(clipped, clipped) / tree.size(clipped))
    return tree.scale(1 / rms, clipped)


def _clipped(evaluation):
    grad = jax.tree.map(lambda g: jnp.where(jnp.isnan(g), 0.0, jnp.clip(g, -1e6, 1e6)), evaluation.grad)
    return evaluation._replace(grad=grad)


def _gamma_quantile(p, mean, deviation):
    """Of the Gamma law with that mean and deviation, after Wilson and Hilferty."""
    square = deviation**2 + 1e-6
    shape, scale = mean**2 / square, square / mean
    return scale * shape * (1 - 1 / (9 * shape) + jax.scipy.stats.norm.ppf(p) / (3 * jnp.sqrt(shape))) ** 3
