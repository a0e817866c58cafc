r"""A weighted sum of targets on the same position: log p = Σ_j w_j log p_j.

Each part keeps a stream of its own: a classifier that is an energy too (JEM) is the sum of a likelihood by chains and a
loss on labels.

References
----------
Grathwohl, Wang, Jacobsen, Duvenaud, Norouzi & Swersky (2020), Your classifier is secretly an energy based model,
    eq. (6).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from langevin.core import tree
from langevin.core.record import record
from langevin.core.types import Eval, Key, PyTree, Scalar


@record
class Sum:
    """Σ_j w_j log p_j.

    targets: the parts.
    weights: w_j, as many numbers.
    """

    targets: tuple[Any, ...]
    weights: tuple[Any, ...]

    def __post_init__(self):
        if len(self.targets) != len(self.weights) or not self.targets:
            raise ValueError(f"Sum: {len(self.targets)} targets and {len(self.weights)} weights; give one of each.")

    @property
    def made_of(self) -> tuple[Any, ...]:
        return self.targets

    @property
    def stochastic(self) -> bool:
        return any(t.stochastic for t in self.targets)

    def log_density(self, position: PyTree) -> Scalar:
        return sum((w * t.log_density(position) for w, t in self._pairs()), jnp.zeros(()))

    def start(self, key: Key):
        return tuple(t.start(k) for t, k in zip(self.targets, jax.random.split(key, len(self.targets)), strict=True))

    def estimate(self, key: Key, feed, position: PyTree) -> tuple[Eval, PyTree]:
        """Every part is estimated, each from its own stream."""
        keys = jax.random.split(key, len(self.targets))
        found = [t.estimate(k, f, position) for k, t, f in zip(keys, self.targets, feed, strict=True)]
        value, grad = jnp.zeros(()), tree.zeros_like(position)
        for (w, _), (evaluation, _) in zip(self._pairs(), found, strict=True):
            value = value + w * evaluation.log_density
            grad = tree.axpy(w, evaluation.grad, grad)
        n_data = sum((e.n_data for e, _ in found), jnp.zeros((), jnp.int32))
        return Eval(value, grad, n_data), tuple(f for _, f in found)

    def _pairs(self):
        return zip(self.weights, self.targets, strict=True)
