r"""SGLD with momentum added to the drift: a sampler of another law.

    m = β m + (1 − β) ĝ,      θ' = θ + h (ĝ + a m) + √(2 T h) ξ.

As h → 0 at fixed β, m → ĝ, and the law is p^((1 + a)/T): the posterior, colder. There is no Γ to drop; the added
drift is the bias. `SGHMC` has momentum and converges to p^(1/T).

References
----------
Kim, Song & Liang (2020), Stochastic gradient Langevin dynamics algorithms with adaptive drifts, alg. 1.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from langevin.core import noise, tree
from langevin.core.kernel import Kernel, audited, begin, kernel, report, warn_once
from langevin.core.noise import Noise
from langevin.core.record import nonnegative, positive, static
from langevin.core.schedule import Schedule, at
from langevin.core.types import Law
from langevin.dynamics.uncorrected import refuse_correction
from langevin.targets.tempered import Tempered


@kernel
class MSGLD(Kernel):
    """SGLD with a multiple of the mean gradient in the drift; it cools the law.

    step_size: h.
    temperature: T of the noise.
    weight: a, how much of the mean gradient is added.
    momentum: β of the mean.
    correction: "none", the only one: there is no Γ, the added drift is the bias.
    noise: "normal" or "rademacher".
    """

    step_size: Schedule = positive(default=1e-3)
    temperature: Schedule = nonnegative(default=1.0)
    weight: float = nonnegative(default=1.0)
    momentum: float = nonnegative(default=0.9)
    correction: str = static(default="none")
    noise: Noise = static(default="normal")
    audit = audited(step_size=0.025, momentum=0.0)

    def __post_init__(self):
        refuse_correction("MSGLD", self.correction, "SGHMC, which has momentum and the right law")
        warn_once(f"MSGLD converges to {self.law().words}.")

    def init(self, key, position, target):
        return begin(key, position, target, memory=tree.zeros_like(position))

    def step(self, key, state, target):
        k_noise, k_eval = jax.random.split(key)
        h, T = at(self.step_size, state.count), at(self.temperature, state.count)
        b, grad = self.momentum, state.eval.grad
        m = jax.tree.map(lambda m, g: (b * m + (1 - b) * g).astype(m.dtype), state.memory, grad)
        xi = noise.like(k_noise, state.position, self.noise)
        moved = lambda u, g, m, n: (u + h * (g + self.weight * m) + jnp.sqrt(2 * T) * jnp.sqrt(h) * n).astype(u.dtype)
        position = jax.tree.map(moved, state.position, grad, m, xi)
        evaluation, feed = target.estimate(k_eval, state.feed, position)
        new = state._replace(position=position, memory=m, eval=evaluation, feed=feed, count=state.count + 1)
        return new, report(new)

    def law(self) -> Law:
        words = "p^((1 + a)/T), colder than p^(1/T), as h → 0; take SGHMC, whose momentum keeps the law"
        return Law("wrong", 1.0, self._cold, words)

    def _cold(self, target):
        return Tempered(target, at(self.temperature, jnp.zeros((), jnp.int32)) / (1 + self.weight))
