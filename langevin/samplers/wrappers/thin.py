r"""Several steps as one: a kernel run n times, its Info reduced.

    K_thin = K ∘ K ∘ … ∘ K,

with the law of K. Use it inside other kernels; between stored draws `run(thin=…)` does the same.

References
----------
Link & Eaton (2012), On thinning of chains in MCMC.
"""

from __future__ import annotations

from typing import Any

import jax

from langevin.core import noise
from langevin.core.kernel import kernel, reduced
from langevin.core.record import static
from langevin.core.types import Law


@kernel
class Thin:
    """n steps of a kernel as one.

    kernel: the kernel.
    n: how many of its steps make one; `count` counts its steps.
    """

    kernel: Any
    n: int = static(default=10)

    @property
    def group(self) -> int:
        return getattr(self.kernel, "group", 1)

    @property
    def stride(self) -> int:
        return self.n

    def init(self, key, position, target):
        return self.kernel.init(key, position, target)

    def step(self, key, state, target):
        words, wrap = noise.words(jax.random.split(key, self.n))
        state, infos = jax.lax.scan(lambda s, w: self.kernel.step(wrap(w), s, target), state, words)
        return state, reduced(infos)

    def law(self) -> Law:
        return self.kernel.law()
