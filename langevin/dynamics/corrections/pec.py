r"""Predict, evaluate, correct (PEC): Γ at the price of one gradient a step.

The target is evaluated only at the predicted end y of the step, which uses gradient and metric of the last y,

    y = θ + h D₋g₋ + s R₋ξ,      θ' = θ + (h/2)(D₋g₋ + D g) + s η,      D, g at y,

with η = R(y) ξ for a diagonal metric and ½[D₋ + D(y)] R₋⁻¹ξ otherwise. It is right because θ and the last y are O(h)
apart. For constant D it is a trapezoidal rule of order 2. Stable for h D|∇²log p| < 1 (the others for 2).

On a mini-batched target metric and drift from one batch give E[D(ĝ)ĝ] ≠ E[D]E[ĝ], a bias that stays as h → 0. With a
batch of its own (`metric_batch`), the metric holds it for 64 steps, through which D is a fixed function of θ, and needs
one evaluation of it a step where EndPoint needs two. `eval` is at y and not at `position`.
"""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import lax

from langevin.core import noise, tree
from langevin.core.kernel import begin, report, warn_once
from langevin.core.record import record
from langevin.core.schedule import at
from langevin.dynamics.corrections.base import Correction, MetricOnBatch

HELD = 64  # steps for which the metric's own batch is held


@record
class PEC(Correction):
    """One evaluation a step, at its predicted end."""

    name: ClassVar[str] = "pec"
    own_batch: ClassVar[float] = 0.0

    def accept_one_batch(self, who, better):
        warn_once(
            f"{who}: correction='pec' on a mini-batched target takes metric and drift from one batch, a bias that "
            f"stays as h → 0; metric_batch=1/8 or correction={better!r} has none."
        )

    def init(self, kernel, key, position, target):
        share = kernel.own_batch(target)
        if not share:
            return super().init(kernel, key, position, target)
        k_begin, k_metric = jax.random.split(key)
        state = begin(k_begin, position, target)
        memory = kernel.metric.update(kernel.metric.start(position), state.eval.grad, state.count)
        local = MetricOnBatch.draw(k_metric, kernel.metric, target, state._replace(memory=(memory, ())), share)
        return state._replace(memory=(memory, (local.at(position)[1], local.batch)))

    def step(self, kernel, key, state, target):
        return (self._hold if kernel.own_batch(target) else self._predict)(kernel, key, state, target)

    def _predict(self, kernel, key, state, target):
        """One evaluation, at the predicted end of the step."""
        k_noise, k_eval = jax.random.split(key)
        metric, memory, before = kernel.metric, state.memory[0], kernel.geometry(state)

        def evaluate(there):
            evaluation, feed = target.estimate(k_eval, state.feed, there)
            now = metric.update(memory, evaluation.grad, state.count + 1)
            return evaluation, feed, now, metric.geometry(now, evaluation.grad, there)

        position, evaluation, feed, memory, now = self._correct(kernel, k_noise, state, before, evaluate)
        carried = () if kernel.recomputes else now
        new = state._replace(
            position=position, memory=(memory, carried), eval=evaluation, feed=feed, count=state.count + 1
        )
        return new, report(new)

    def _hold(self, kernel, key, state, target):
        """With a batch of the metric's own, held for HELD steps: while it is, D is a function of θ alone."""
        k_noise, k_eval, k_metric = jax.random.split(key, 3)
        memory, (before, batch) = state.memory
        words, wrap = noise.words(k_metric)
        local = MetricOnBatch(kernel.metric, state, target.evaluate, batch)

        def draw(words):
            fresh = MetricOnBatch.draw(wrap(words), kernel.metric, target, state, kernel.own_batch(target))
            return fresh.at(state.position)[1], fresh.batch

        again = state.count % HELD == 0
        before, local.batch = lax.cond(again, draw, lambda _: (before, batch), words)
        n_data = []

        def evaluate(there):
            evaluation, feed = target.estimate(k_eval, state.feed, there)
            _, now, n = local.at(there)
            n_data.append(n)
            return evaluation, feed, memory, now

        position, evaluation, feed, memory, now = self._correct(kernel, k_noise, state, before, evaluate)
        new = state._replace(
            position=position, memory=(memory, (now, local.batch)), eval=evaluation, feed=feed, count=state.count + 1
        )
        extra = 1 + again.astype(jnp.int32)
        return new, report(new, n_grad=1 + extra, n_data=evaluation.n_data + extra * n_data[0])

    def _correct(self, kernel, key, state, before, evaluate):
        """Predict with the last metric and gradient, evaluate there, correct with the same noise."""
        h, T = at(kernel.step_size, state.count), at(kernel.temperature, state.count)
        metric, s = kernel.metric, jnp.sqrt(2 * T) * jnp.sqrt(h)
        xi = noise.like(key, state.position, kernel.noise)
        pull, kick = metric.apply(before, state.eval.grad), metric.root(before, xi)
        move = lambda u, d, n: (u + h * d + s * n).astype(u.dtype)
        evaluation, feed, memory, now = evaluate(jax.tree.map(move, state.position, pull, kick))
        if metric.diagonal:
            eta = metric.root(now, xi)
        else:
            eta = tree.scale(0.5, tree.add(kick, metric.apply(now, metric.unroot(before, xi))))
        drift = tree.scale(0.5, tree.add(pull, metric.apply(now, evaluation.grad)))
        return jax.tree.map(move, state.position, drift, eta), evaluation, feed, memory, now
