r"""Training as a target: minus a mean loss over examples and over random numbers, to be maximised by `Optimize`.

    log density(θ) = −1/N Σ_i E_ω l(θ, x_i, ω),      estimate: a mini-batch, and one ω of every example in it.

It is a mean and not a sum, as optimizers and their clipping expect. Everything that trains by a loss is a run of
`Optimize` on one of these, so checkpoints, progress, many starts and many devices come with the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp

from langevin.core.record import record, static
from langevin.core.types import Batch, Eval, Key, PyTree, Scalar
from langevin.targets.stream import Stream


@record
class Loss(Stream):
    """−(mean loss), evaluated on mini-batches.

    loss: (key, position, rows) → one number per row, or their mean; a module-level function or a record.
    data: a tree of arrays whose first axis is the example.
    batch: examples in a mini-batch; None for all of them.
    order: "epoch" or "replacement".
    """

    loss: Callable
    data: PyTree
    batch: int | None = static(default=None)
    order: Literal["replacement", "epoch"] = static(default="epoch")
    stochastic = True

    def log_density(self, position: PyTree) -> Scalar:
        """Over all examples, with random numbers that are always the same."""
        return -jnp.mean(self.loss(jax.random.key(0), position, self.data))

    def draw(self, key: Key, feed, *, fraction: float = 1.0) -> tuple[Batch, PyTree]:
        k_rows, k_loss = jax.random.split(key)
        rows, feed = self.take(k_rows, feed, fraction=fraction)
        return (k_loss, rows), feed

    def evaluate(self, batch: Batch, position: PyTree) -> Eval:
        key, rows = batch
        value, grad = jax.value_and_grad(lambda position: -jnp.mean(self.loss(key, position, rows)))(position)
        return Eval(value, grad, jnp.asarray(jax.tree.leaves(rows)[0].shape[0], jnp.int32))

    def parts(self, batch: Batch, n: int) -> tuple[Batch, ...]:
        key, rows = batch
        return tuple(zip(jax.random.split(key, n), Stream.parts(self, rows, n), strict=True))
