r"""Cyclical stochastic gradient MCMC: any kernel, its step size in cosine cycles.

With r the fraction of the current cycle, the inner kernel runs with step size

    h(t) = ½ h₀ (1 + cos(π r)),

in the exploration stage r < β at temperature 0 (an optimizer that finds another mode), in the sampling stage at its
own temperature. Exploration draws carry log_weight = −inf and enter no average. Within a sampling stage the law is
that of the inner kernel around one mode at its decreasing step; how modes are weighed across cycles is heuristic.

References
----------
Zhang, Li, Zhang, Chen & Wilson (2020), Cyclical stochastic gradient MCMC for Bayesian deep learning, eq. (1), alg. 1.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from langevin.core.kernel import Wrapper, audited, kernel, replace
from langevin.core.record import nonnegative, positive
from langevin.core.schedule import Scaled, phase
from langevin.core.types import Law


@kernel
class Cyclical(Wrapper):
    """Cycles of exploration and sampling.

    kernel: the kernel; its step_size is the peak h₀.
    period: steps in a cycle.
    exploration: β, the share of a cycle without noise and without draws.
    """

    kernel: Any
    period: int = positive(default=1000)
    exploration: float = nonnegative(default=0.5)
    audit = audited(excluded="within a cycle it is the kernel inside it; across cycles its weights are heuristic")

    def step(self, key, state, target):
        r = phase(state.count, self.period)
        exploring = r < self.exploration
        inner = replace(
            self.kernel,
            step_size=Scaled(self.kernel.step_size, 0.5 * (1 + jnp.cos(jnp.pi * r))),
            temperature=Scaled(self.kernel.temperature, jnp.where(exploring, 0.0, 1.0)),
        )
        new, info = inner.step(key, state, target)
        return new, info._replace(log_weight=jnp.where(exploring, -jnp.inf, info.log_weight))

    def law(self) -> Law:
        inner = self.kernel.law()
        return inner._replace(words=f"within a cycle: {inner.words}; the weight of modes across cycles is heuristic")
