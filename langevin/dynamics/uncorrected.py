r"""The law a metric leaves when Γ is dropped: p^(1/T)/D, where that has a closed form.

In one dimension and for independent coordinates with D_i = D_i(θ_i), ∂(D p̃) = D ∂log p · p̃ is solved by p̃ ∝ p/D; with a
moving average whose present share of Γ is kept, by p/D^β. Elsewhere there is none, and `Uncorrected` says so.

References
----------
Rensmeyer & Niggemann (2024), On the convergence of locally adaptive and scalable diffusion-based sampling methods, §3.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from langevin.core import tree
from langevin.core.record import record
from langevin.core.schedule import at
from langevin.core.target import Exact, independent


@record
class Uncorrected(Exact):
    """p^(1/T)/D^power: the law without Γ, in one dimension and for independent coordinates.

    target: p.
    metric: D.
    temperature: T.
    power: 1 without Γ; the decay of a moving average whose visible part of Γ is kept.
    """

    target: Any
    metric: Any
    temperature: Any = 1.0
    power: Any = 1.0

    def log_density(self, position):
        if tree.size(position) > 1 and not (self.metric.diagonal and independent(self.target)):
            raise ValueError(
                "the law without Γ has a closed form in one dimension and for independent coordinates only."
            )
        value, grad = jax.value_and_grad(self.target.log_density)(position)
        memory = self.metric.update(self.metric.start(position), grad, jnp.zeros((), jnp.int32))
        T = at(self.temperature, jnp.zeros((), jnp.int32))
        return value / T - self.power * self.metric.tilt(self.metric.geometry(memory, grad, position))


def refuse_correction(name: str, correction: str, instead: str) -> None:
    """Say that a kernel whose added drift is its bias has no Γ to correct."""
    if correction != "none":
        raise ValueError(
            f"{name}: correction is {correction!r}, but it has no Γ to correct, its added drift is the bias; take "
            f"{instead}."
        )


class WithoutGamma:
    """Target → Uncorrected."""

    def __init__(self, metric, temperature, power):
        self.metric, self.temperature, self.power = metric, temperature, power

    def __call__(self, target):
        return Uncorrected(target, self.metric, self.temperature, self.power)
