r"""SMILE and pSMILE as published: motion at constant speed turned by the noise of mini-batches as it is.

    q = clip(sd, 10⁻², 10⁴)/rms,   S = 1/q,   a McLachlan step on one batch,
    Δ = |Σ ΔK + log p̂₋ − log p̂|, the log densities of two batches.

A Gamma law is fitted to Δ by its running mean and deviation. If Δ is above the `reset` quantile the position goes back
and the velocity becomes 0 (the gradient stays where it was refused); above the quantile 1 − 2a/3 ε shrinks by
`strength`, below a/3 it grows. sd is the running deviation of ĝ from its running mean. Nothing is ever frozen.

The gradient noise is not made isotropic, so along each of its axes the temperature is its variance there over the mean
(`samplers.smile` has the derivation), and no stationary distribution is known. Kept for comparison.

References
----------
Sommer, Robnik, Rügamer et al. (2026), Can microcanonical Langevin dynamics leverage mini-batch gradient noise? (SMILE).
Wilson & Hilferty (1931), The distribution of chi-square (quantiles of the Gamma law).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from langevin.core import tree
from langevin.core.kernel import Kernel, audited, begin, kernel, report, warn_once
from langevin.core.record import nonnegative, positive, record, static
from langevin.core.schedule import Schedule, at
from langevin.core.target import evaluator
from langevin.core.types import Law
from langevin.dynamics.integrators import INTEGRATORS
from langevin.dynamics.isokinetic import Point, dimension, glide
from langevin.dynamics.mass import DiagonalMetric


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
class PublishedSMILE(Kernel):
    """SMILE as its authors run it; its step size and scale never stop moving.

    step_size: ε at the start.
    temperature: T.
    tuner: how the step size and the scale move.
    """

    step_size: Schedule = positive(default=0.01)
    temperature: Schedule = positive(default=1.0)
    tuner: Quantiles = Quantiles()
    audit = audited(excluded="no stationary distribution is known for it, and its step size never settles")

    def __post_init__(self):
        warn_once(f"PublishedSMILE converges to {self.law().words}.")

    def init(self, key, position, target):
        k_begin, _ = jax.random.split(key)
        state = begin(k_begin, position, target, aux=jnp.zeros(dimension(position), jnp.float32))
        one, zero, ones = jnp.ones(()), jnp.zeros(()), jax.tree.map(jnp.ones_like, position)
        eps = jnp.asarray(at(self.step_size, state.count), jnp.float32)
        return state._replace(memory=Running(eps, zero, zero, one, ones, ones))

    def step(self, key, state, target):
        evaluate_on, feed = evaluator(key, target, state.feed)
        past, tuner, T = state.memory, self.tuner, at(self.temperature, state.count)
        scale = _scaled(past.sd) if tuner.scaled else jax.tree.map(jnp.ones_like, past.sd)
        metric = DiagonalMetric(jax.tree.map(lambda q: q**-2, scale))
        evaluate = lambda position: _clipped(evaluate_on(position))
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
        memory = self._adapt(past, error, quantile, settled, end.eval.grad)
        evaluation = end.eval._replace(grad=metric.pull(end.eval.grad))
        new = state._replace(
            position=position, aux=velocity, memory=memory, eval=evaluation, feed=feed, count=state.count + 1
        )
        return new, report(new, acceptance=~undone, energy_error=error, n_grad=2)

    def _adapt(self, past: Running, error, quantile, settled, grad) -> Running:
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

    def law(self) -> Law:
        words = (
            "no distribution that is known: temperature is V_i/mean V along the axes of the gradient noise that are "
            "left, and the step size never settles; take SMILE, tuned by `whiten`"
        )
        return Law("wrong", 0.0, None, words)


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
