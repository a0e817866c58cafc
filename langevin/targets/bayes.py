r"""A posterior: log prior + Σ_i log likelihood of example i, with mini-batches drawn inside the compiled loop.

    log p(θ) = log π(θ) + Σ_{i=1}^N l_i(θ),      estimate on a batch b of n:   log π(θ) + (N/n) Σ_{i∈b} l_i(θ).

The scaling N/n is done here and nowhere else; `targets.stream` says how batches are drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp

from langevin.core.record import record, static
from langevin.core.types import Batch, Eval, PyTree, Scalar
from langevin.targets.stream import Stream, total


@record
class Bayes(Stream):
    """Prior × likelihood of data, evaluated on all data or on mini-batches.

    log_prior: position → scalar: a module-level function, or a record with `__call__` whose arrays travel as data.
    log_likelihood: (position, data) → one number per example; a function or a record.
    data: a tree of arrays whose first axis is the example.
    batch: examples in a mini-batch; None for all of them.
    order: "replacement" or "epoch".
    """

    log_prior: Callable
    log_likelihood: Callable
    data: PyTree
    batch: int | None = static(default=None)
    order: Literal["replacement", "epoch"] = static(default="replacement")

    def prior(self, position: PyTree) -> Scalar:
        return self.log_prior(position)

    def likelihood(self, position: PyTree, data: PyTree) -> jax.Array:
        """l_i(θ) of every example given, checked to be one number each."""
        values = self.log_likelihood(position, data)
        n = jax.tree.leaves(data)[0].shape[0]
        if jnp.shape(values) != (n,):
            raise ValueError(
                f"Bayes: log_likelihood returned shape {jnp.shape(values)} for {n} examples; it must return one number "
                f"per example, shape ({n},), not their sum or mean."
            )
        return values

    def log_density(self, position: PyTree) -> Scalar:
        return self.prior(position) + total(lambda data: self.likelihood(position, data), self.data)

    def evaluate(self, batch: Batch, position: PyTree) -> Eval:
        n = jax.tree.leaves(batch)[0].shape[0]
        scale = self.n / n

        def estimate(position):
            return self.prior(position) + scale * jnp.sum(self.likelihood(position, batch))

        value, grad = jax.value_and_grad(estimate)(position)
        return Eval(value, grad, jnp.asarray(n, jnp.int32))
