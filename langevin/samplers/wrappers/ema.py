r"""A running mean of the positions beside a kernel: EMA weights of a training run, or the mean of a chain.

    m' = (1 − w) m + w θ',      w = max(1 − decay, 1/(t + 1)),

so that m is the plain mean of the first 1/(1 − decay) steps and forgets exponentially after it; decay = 1 is the mean
of all. The chain itself is the kernel's, its law too; `mean_of(state)` reads m, and can be what `run(collect=…)` keeps.

References
----------
Polyak & Juditsky (1992), Acceleration of stochastic approximation by averaging, eq. (2).
Song & Ermon (2020), Improved techniques for training score-based generative models, §3.4 (EMA).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from langevin.core.kernel import Wrapper, kernel
from langevin.core.record import nonnegative
from langevin.core.types import PyTree, State


class Averages(NamedTuple):
    """The memory of the kernel inside, and the mean."""

    memory: PyTree
    mean: PyTree


@kernel
class EMA(Wrapper):
    """A kernel and the running mean of its positions.

    kernel: the kernel.
    decay: how much of the mean is kept each step, in [0, 1]; 1 for the mean of all steps.
    """

    kernel: Any
    decay: float = nonnegative(default=0.999)

    def __post_init__(self):
        if self.kernel.group > 1:
            raise ValueError("EMA: this kernel moves chains in groups; average the kernel inside it instead.")

    def init(self, key, position, target):
        state = self.kernel.init(key, position, target)
        return state._replace(memory=Averages(state.memory, position))

    def step(self, key, state, target):
        new, info = self.kernel.step(key, state._replace(memory=state.memory.memory), target)
        w = jnp.maximum(1.0 - self.decay, 1.0 / (state.count + 2.0))
        mean = jax.tree.map(lambda m, u: (m + w * (u - m)).astype(m.dtype), state.memory.mean, new.position)
        return new._replace(memory=Averages(new.memory, mean)), info


def mean_of(state: State) -> PyTree:
    """The running mean of a state of `EMA`."""
    return state.memory.mean
