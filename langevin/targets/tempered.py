r"""Tempering: the same target, hotter or colder.

    part="all":          p_T(θ) ∝ p(θ)^{1/T},                  ∇log p_T = g / T
    part="likelihood":   p_T(θ) ∝ π(θ) L(θ)^{1/T},             ∇log p_T = g / T + (1 − 1/T) ∇log π

with g = ∇log p = ∇log π + ∇log L, or any unbiased estimate of it: both forms are linear in g, so mini-batches stay
unbiased. T < 1 is a cold posterior; the two forms differ in whether the prior is sharpened too.

References
----------
Wenzel et al. (2020), How good is the Bayes posterior in deep neural networks really? (cold and tempered posteriors).
"""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp

from langevin.core.record import positive, record, static
from langevin.core.target import Derived, HasPrior, need
from langevin.core.types import Batch, Eval, PyTree, Scalar


@record
class Tempered(Derived):
    """A target to the power 1/T, in all or in its likelihood.

    target: the target at T = 1.
    temperature: T.
    part: "all", or "likelihood" (the prior stays as it is; the target must have `prior`).
    """

    target: Any
    temperature: Any = positive(default=1.0)
    part: Literal["all", "likelihood"] = static(default="all")

    def __post_init__(self):
        if self.part not in ("all", "likelihood"):
            raise ValueError(f"Tempered: part is {self.part!r}; it must be 'all' or 'likelihood'.")
        if self.part == "likelihood":
            need(self.target, HasPrior, 'Tempered: part="likelihood"')

    def prior(self, position: PyTree) -> Scalar:
        """The log prior of the tempered target, where the target has one."""
        value = self.target.prior(position)
        return value if self.part == "likelihood" else value / self.temperature

    def log_density(self, position: PyTree) -> Scalar:
        value = self.target.log_density(position)
        if self.part == "all":
            return value / self.temperature
        return blend(1.0 / self.temperature, value, self.target.prior(position))

    def evaluate(self, batch: Batch, position: PyTree) -> Eval:
        here = self.target.evaluate(batch, position)
        power = 1.0 / self.temperature
        if self.part == "likelihood":
            return likelihood_to(power, self.target, here, position)
        return Eval(power * here.log_density, jax.tree.map(lambda g: times(power, g), here.grad), here.n_data)


def likelihood_to(power, target, here: Eval, position: PyTree) -> Eval:
    """π·L^power, given `here`, the evaluation of π·L."""
    value, grad = jax.value_and_grad(target.prior)(position)
    mixed = jax.tree.map(lambda g, p: blend(power, g, p), here.grad, grad)
    return Eval(blend(power, here.log_density, value), mixed, here.n_data)


def blend(weight, x, y):
    """weight·x + (1 − weight)·y in the dtype of x, where weight 0 beats an infinity: the ends of a path are exact."""
    return times(weight, x) + times(1.0 - weight, y).astype(jnp.result_type(x))


def times(weight, x):
    """weight·x in the dtype of x; 0·x is 0 whatever x."""
    return jnp.where(jnp.asarray(weight) == 0.0, jnp.zeros_like(x), weight * x).astype(jnp.result_type(x))
