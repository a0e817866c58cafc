r"""Ascent of the log density by any Optax optimizer: MAP, VI and all training are runs of it.

    u, m' = optimizer(−ĝ, m, θ),      θ' = θ + u.

No law is sampled: the chain goes to a mode. It is the start of every sampler (`tune.warm_start`).

References
----------
Kingma & Ba (2015), Adam: a method for stochastic optimization, alg. 1.
DeepMind et al. (2020), The DeepMind JAX ecosystem (Optax).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax

from langevin.core import tree
from langevin.core.kernel import Kernel, audited, begin, kernel, report
from langevin.core.record import positive, record, static
from langevin.core.schedule import Schedule, at
from langevin.core.types import Law


@record
class Adam:
    """Adam (Kingma & Ba 2015) as a record: its rate is a number that sweeps and is saved, as a kernel's are.

    The corrections of both moments are one number for all coordinates, so that a coordinate costs one root and one
    division (§2 of the paper):  u = −rate √c₂/c₁ · m/(√v + 10⁻⁸ √c₂),  c₁ = 1 − 0.9^t,  c₂ = 1 − 0.999^t.

    rate: the learning rate, or a schedule of it.
    """

    rate: Schedule = positive(default=1e-3)

    def init(self, position):
        return optax.adam(self.rate).init(position)

    def update(self, grad, memory, position):
        adam, rest = memory
        count = optax.safe_increment(adam.count)
        m = jax.tree.map(lambda m, g: (0.9 * m + 0.1 * g).astype(m.dtype), adam.mu, grad)
        v = jax.tree.map(lambda v, g: (0.999 * v + 0.001 * g**2).astype(v.dtype), adam.nu, grad)
        root = jnp.sqrt(1 - 0.999**count)
        pace, floor = -at(self.rate, adam.count) * root / (1 - 0.9**count), 1e-8 * root
        updates = jax.tree.map(lambda m, v: (pace * m / (jnp.sqrt(v) + floor)).astype(m.dtype), m, v)
        if isinstance(rest, optax.ScaleByScheduleState):
            rest = optax.ScaleByScheduleState(optax.safe_increment(rest.count))
        return updates, (optax.ScaleByAdamState(count, m, v), rest)


@record
class Transformation:
    """Any Optax optimizer. Two of the same functions are one program; a new object compiles anew.

    made: the optax.GradientTransformation.
    """

    made: optax.GradientTransformation = static()

    def init(self, position):
        return self.made.init(position)

    def update(self, grad, memory, position):
        return self.made.update(grad, memory, position)


@kernel
class Optimize(Kernel):
    """Gradient ascent with an optimizer.

    optimizer: `Adam`, which is saved with the kernel, or an optax.GradientTransformation, which is code and is not;
        build the latter once, a new object compiles anew.
    """

    optimizer: Any = Adam()
    audit = audited(excluded="it samples no distribution: the chain goes to a mode")

    def __post_init__(self):
        if isinstance(self.optimizer, optax.GradientTransformation):
            object.__setattr__(self, "optimizer", Transformation(self.optimizer))

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
