r"""A guard around any kernel: a step that ends where it must not is undone.

If the new log density or gradient is not finite, or the log density has fallen by more than `max_drop` in one step,
position, momentum, memory and evaluation go back together to where they were, and the momentum is reversed, so that
the chain does not run into the same wall again. The step counts as rejected (acceptance 0), never as diverged.
Where the guard never acts the law is the kernel's; where it acts it adds a reflection that is not corrected for:
watch the acceptance.

References
----------
Sommer et al. (2026), Can microcanonical Langevin dynamics leverage mini-batch gradient noise? (resets on divergence).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from langevin.core import tree
from langevin.core.kernel import Wrapper, kernel
from langevin.core.record import positive


@kernel
class Guard(Wrapper):
    """Undo steps that blow up.

    kernel: the kernel to guard.
    max_drop: the largest fall of log density allowed in one step.
    """

    kernel: Any
    max_drop: float = positive(default=1e6)

    def __post_init__(self):
        if self.kernel.group > 1:
            raise ValueError("Guard: this kernel moves chains in groups; guard the kernel inside it instead.")

    def step(self, key, state, target):
        new, info = self.kernel.step(key, state, target)
        drop = state.eval.log_density - new.eval.log_density
        fine = info.ok & tree.finite((new.position, new.aux, new.eval)) & (drop <= self.max_drop)
        back = state._replace(aux=tree.scale(-1.0, state.aux), feed=new.feed, count=new.count)
        kept = tree.where(fine, new._replace(count=()), back._replace(count=()))
        kept = kept._replace(count=new.count)
        return kept, info._replace(
            log_density=jnp.where(fine, info.log_density, state.eval.log_density),
            acceptance=jnp.where(fine, info.acceptance, 0.0),
            energy_error=jnp.where(fine, info.energy_error, 0.0),
            ok=jnp.isfinite(kept.eval.log_density),
        )
