r"""Several steps as one: a kernel run n times, its Info reduce.

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
from langevin.core.kernel import Wrapper, kernel, reduce
from langevin.core.record import static


@kernel
class Thin(Wrapper):
    """n steps of a kernel as one.

    kernel: the kernel.
    n: how many of its steps make one; `count` counts its steps.
    """

    kernel: Any
    n: int = static(default=10)

    @property
    def stride(self) -> int:
        return self.n * self.kernel.stride

    def step(self, key, state, target):
        words, wrap = noise.words(jax.random.split(key, self.n))
        state, infos = jax.lax.scan(lambda s, w: self.kernel.step(wrap(w), s, target), state, words)
        return state, reduce(infos)
