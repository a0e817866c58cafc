"""The paper's regression as targets: with its 10,000 examples for mini-batches, and as the quadratic it is."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from langevin.core.record import record
from langevin.core.target import Exact
from langevin.data import regression
from langevin.evidence.base import Normal
from langevin.targets.bayes import Bayes
from langevin_lab.oracle import Regression

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@record
class Linear:
    """log N(y_i; x_iᵀθ, σ²) of every example of data = (x, y).

    log_variance: log σ².
    """

    log_variance: Any = 0.0

    def __call__(self, position, data):
        x, y = data
        return -0.5 * (y - x @ position) ** 2 * jnp.exp(-self.log_variance) - 0.5 * self.log_variance - HALF_LOG_2PI


@record
class Quadratic(Exact):
    """log prior + log likelihood of all examples from their sums: θ ↦ c + bᵀθ − ½ θᵀPθ.

    P: the precision of the posterior.
    b: Xᵀy/σ².
    constant: c.
    """

    P: Any
    b: Any
    constant: Any

    def log_density(self, position):
        return self.constant + self.b @ position - 0.5 * position @ self.P @ position


def standard_normal(position):
    return -0.5 * jnp.sum(position**2) - position.shape[0] * HALF_LOG_2PI


@cache
def problem() -> Regression:
    return Regression(*regression.load())


def base() -> Normal:
    return Normal(jnp.zeros(problem().d))


def bayes(batch: int | None = None, log_variance: Any = 0.0) -> Bayes:
    """All examples, looked at `batch` at a time."""
    known = problem()
    data = jnp.asarray(known.X, jnp.float32), jnp.asarray(known.y, jnp.float32)
    return Bayes(standard_normal, Linear(log_variance), data, batch)


def quadratic() -> Quadratic:
    known = problem()
    constant = known.constant - known.d * HALF_LOG_2PI
    return Quadratic(*(jnp.asarray(np.asarray(u), jnp.float32) for u in (known.precision, known.b, constant)))
