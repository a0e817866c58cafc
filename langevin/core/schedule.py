"""Schedules: a number, or a record that maps a step count to one. New values never recompile.

An Optax schedule (any function of the count) is accepted wherever a schedule is; it is held as `External`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from langevin.core.record import positive, record
from langevin.core.types import Scalar

Schedule = float | Callable[[Scalar], Scalar]


def at(schedule: Schedule, count: Scalar) -> Scalar:
    """The schedule's value at this step."""
    return schedule(count) if callable(schedule) else schedule  # type: ignore[return-value]


@record
class Polynomial:
    """a (b + t)^−γ, the decreasing steps of Welling & Teh (2011), §2, for which SGLD has no bias in the limit.

    first: the value at t = 0.
    delay: b; steps before the decrease is felt.
    power: γ; in (½, 1] steps sum to infinity and their squares do not. For a given number of steps 1/3 has the
        least mean squared error (Teh, Thiery & Vollmer 2016, §5), which those conditions exclude.
    """

    first: float = positive(default=1e-2)
    delay: float = positive(default=100.0)
    power: float = positive(default=0.55)

    def __call__(self, count):
        return self.first * (1.0 + count / self.delay) ** -self.power


@record
class Cosine:
    """½ peak (1 + cos(π r)), r the fraction of the current cycle (Zhang et al. 2020, eq. (1)).

    peak: the value at the start of a cycle.
    period: steps in a cycle.
    """

    peak: float = positive(default=1e-2)
    period: int = positive(default=1000)

    def __call__(self, count):
        return 0.5 * self.peak * (1.0 + jnp.cos(jnp.pi * phase(count, self.period)))


@record
class Linear:
    """From `first` to `last` in `steps` steps, then `last`.

    first: the value at the start.
    last: the value at the end.
    steps: how long it takes.
    """

    first: float = 0.0
    last: float = 1.0
    steps: int = positive(default=1000)

    def __call__(self, count):
        return self.first + (self.last - self.first) * jnp.minimum(count / self.steps, 1.0)


@record
class Scaled:
    """factor · schedule(count): how a combinator changes a kernel's own schedule.

    schedule: the schedule to scale.
    factor: by what.
    """

    schedule: Schedule = 1.0
    factor: Any = 1.0

    def __call__(self, count):
        return self.factor * at(self.schedule, count)


def phase(count, period):
    """The fraction in [0, 1) of the current cycle."""
    return (count % jnp.asarray(period, jnp.int32)) / period
