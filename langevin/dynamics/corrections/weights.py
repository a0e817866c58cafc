r"""Importance weights in place of Γ, where D is one number a chain.

Without Γ the chain is plain Langevin dynamics seen at times dt = D dτ, so averages weighted by D are averages over t:
`Info.log_weight` = log D. Single draws are still of p^(1/T)/D.

References
----------
Leimkuhler, Lohmann & Whalley (2025), A Langevin sampling algorithm inspired by the Adam optimizer.
"""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp

from langevin.core.kernel import warn_once
from langevin.core.record import record
from langevin.core.types import Law
from langevin.dynamics.corrections.none import NoCorrection


@record
class Weights(NoCorrection):
    """Draws weighted by D; for one D a chain."""

    name: ClassVar[str] = "weights"

    def accept_one_batch(self, who, better):
        warn_once(
            f"{who}: correction='weights' on a mini-batched target takes metric and drift from one batch, a bias that "
            f"stays as h → 0; correction={better!r} has none."
        )

    def law(self, kernel) -> Law:
        words = "p^(1/T) for draws weighted by e^log_weight, as h → 0; bias O(h) (single draws are of p^(1/T)/D)"
        return Law("order", 1.0, None, words)

    def step(self, kernel, key, state, target):
        new, info = super().step(kernel, key, state, target)
        return new, info._replace(log_weight=kernel.metric.tilt(kernel.geometry(new)).astype(jnp.float32))
