r"""Ascent of the log density by any Optax optimizer: MAP, VI and all training are runs of it.

    u, m' = optimizer(−ĝ, m, θ),      θ' = θ + u.

No law is sampled: the chain goes to a mode. It is the start of every sampler (`tune.warm_start`).

References
----------
DeepMind et al. (2020), The DeepMind JAX ecosystem (Optax).
"""

from __future__ import annotations

import jax
import optax

from langevin.core import tree
from langevin.core.kernel import Kernel, audited, begin, kernel, report
from langevin.core.record import static
from langevin.core.types import Law


@kernel
class Optimize(Kernel):
    """Gradient ascent with an Optax optimizer.

    optimizer: an optax.GradientTransformation; build it once, a new object compiles anew.
    """

    optimizer: optax.GradientTransformation = static(default=optax.adam(1e-3))
    audit = audited(excluded="it samples no distribution: the chain goes to a mode")

    def init(self, key, position, target):
        return begin(key, position, target, memory=self.optimizer.init(position))

    def step(self, key, state, target):
        descent = tree.scale(-1.0, state.eval.grad)
        updates, memory = self.optimizer.update(descent, state.memory, state.position)
        position = jax.tree.map(lambda u, v: (u + v).astype(u.dtype), state.position, updates)
        evaluation, feed = target.estimate(key, state.feed, position)
        new = state._replace(position=position, memory=memory, eval=evaluation, feed=feed, count=state.count + 1)
        return new, report(new)

    def law(self) -> Law:
        return Law("wrong", 0.0, None, "none: the chain goes to a mode")
