r"""Training as a target: minus a mean loss over examples and over random numbers, to be maximised by `Optimize`.

    log density(θ) = −1/N Σ_i E_ω l(θ, x_i, ω),      estimate: a mini-batch, and one ω of every example in it.

It is a mean and not a sum, as optimizers and their clipping expect. Everything that trains by a loss is a run of
`Optimize` on one of these, so checkpoints, progress, many starts and many devices come with the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import jax.numpy as jnp

from langevin.core.record import record, static
from langevin.core.types import PyTree
from langevin.targets.stream import Randomized


@record
class Loss(Randomized):
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

    def value(self, key, rows, position):
        return -jnp.mean(self.loss(key, position, rows))
