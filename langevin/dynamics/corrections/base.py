r"""What the corrections share: one Langevin step in a metric, and the metric as a function of position.

A step is θ' = θ + h (D g + T Γ̂) + s η, s = √(2Th). A correction says what Γ̂ and η are (`terms`) and what that costs;
one that needs another step altogether, as `PEC` does, writes `step` itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from langevin.core import noise, tree
from langevin.core.kernel import begin, report
from langevin.core.record import record
from langevin.core.schedule import at
from langevin.core.target import HasBatches, Target, evaluator, need
from langevin.core.types import Law, PyTree, Scalar

OWN_BATCH = 1 / 8  # of the drift's batch: what the metric is evaluated on unless told otherwise


class Point(NamedTuple):
    """Where a step begins: metric, position, geometry there, unit noise, s, and the metric on its batch."""

    metric: Any
    position: PyTree
    geometry: PyTree
    xi: PyTree
    scale: Scalar
    local: MetricOnBatch


@record
class Correction:
    """Abstract: a way to include Γ.

    name: its short name. own_batch: the share of a mini-batch that the metric is evaluated on by itself. diagonal:
    right for diagonal metrics only. requires: what it needs of the target.
    """

    name: ClassVar[str] = ""
    own_batch: ClassVar[float] = OWN_BATCH
    diagonal: ClassVar[bool] = False
    requires: ClassVar[type] = Target

    def terms(self, key, point: Point) -> tuple[PyTree, PyTree]:
        """Γ̂ and η."""
        raise NotImplementedError

    def extra(self, dimension: int) -> int:
        """Gradient evaluations besides the drift's."""
        return 1

    def accept_one_batch(self, who: str, better: str) -> None:
        """Called where metric and drift would come from one mini-batch; most corrections refuse."""
        raise ValueError(
            f"{who}: on a mini-batched target {self.name!r} needs a batch for the metric; take metric_batch=1/8."
        )

    def law(self, kernel: Any) -> Law:
        return Law("order", 1.0, None, "p^(1/T) as h → 0; bias O(h), plus O(h) from mini-batch noise")

    def init(self, kernel: Any, key, position, target):
        k_begin, _ = jax.random.split(key)
        state = begin(k_begin, position, target)
        memory = kernel.metric.update(kernel.metric.start(position), state.eval.grad, state.count)
        return state._replace(memory=(memory, kernel.carried(target, memory, state.eval.grad, position)))

    def step(self, kernel: Any, key, state, target):
        """The step begins with an evaluation at `position` and ends with the next."""
        k_noise, k_eval, k_metric, k_probe = jax.random.split(key, 4)
        h, T = at(kernel.step_size, state.count), at(kernel.temperature, state.count)
        metric, share = kernel.metric, kernel.own_batch(target)
        memory, geometry, position = state.memory[0], kernel.geometry(state), state.position
        xi, s = noise.like(k_noise, position, kernel.noise), jnp.sqrt(2 * T) * jnp.sqrt(h)
        extra = 0 if metric.kind == "position" else bool(share) + self.extra(tree.size(position))
        local = MetricOnBatch.draw(k_metric, metric, target, state, share) if extra else MetricOnBatch(metric, state)
        n_data = state.eval.n_data
        if share:
            memory, geometry, n_data = local.at(position)
        gamma, eta = self.terms(k_probe, Point(metric, position, geometry, xi, s, local))
        drift = metric.apply(geometry, state.eval.grad)
        position = jax.tree.map(
            lambda u, d, c, n: (u + h * (d + T * c) + s * n).astype(u.dtype), position, drift, gamma, eta
        )
        evaluation, feed = target.estimate(k_eval, state.feed, position)
        if not share:
            memory = metric.update(memory, evaluation.grad, state.count + 1)
        carried = kernel.carried(target, memory, evaluation.grad, position)
        new = state._replace(
            position=position, memory=(memory, carried), eval=evaluation, feed=feed, count=state.count + 1
        )
        return new, report(new, n_grad=1 + extra, n_data=evaluation.n_data + extra * n_data)


class MetricOnBatch:
    """The metric as a function of position within one step: one batch, evaluated as often as asked.

    evaluate: (batch, position) → Eval; None for a metric of the position alone.
    """

    def __init__(self, metric, state, evaluate: Callable | None = None, batch: PyTree = ()):
        self.metric, self.state, self.evaluate, self.batch = metric, state, evaluate, batch

    @classmethod
    def draw(cls, key, metric, target, state, share: float) -> MetricOnBatch:
        """On a batch of its own if it has a share; drawn here and not at the first use, which may be inside a map."""
        if share or target.stochastic:
            need(target, HasBatches, "a correction that evaluates the metric by itself")
            # below 1, so that no epoch is followed
            batch, _ = target.draw(key, state.feed, fraction=min(share, 1 - 1e-6) if share else 1.0)
            return cls(metric, state, target.evaluate, batch)
        evaluate, _ = evaluator(key, target, state.feed)
        return cls(metric, state, lambda batch, position: evaluate(position))

    def at(self, position):
        """The statistics, the geometry and the number of examples after one more evaluation at this position."""
        (memory, _), count = self.state.memory, self.state.count
        if self.evaluate is None:
            return memory, self.metric.geometry(memory, self.state.eval.grad, position), 0
        evaluation = self.evaluate(self.batch, position)
        memory = self.metric.update(memory, evaluation.grad, count)
        return memory, self.metric.geometry(memory, evaluation.grad, position), evaluation.n_data

    def apply(self, position, v):
        return self.metric.apply(self.at(position)[1], v)
