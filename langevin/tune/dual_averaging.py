r"""Step size to an acceptance rate, by dual averaging.

With a_t the acceptance probability of step t and δ the rate asked for,

    H̄_t = (1 − 1/(t + t₀)) H̄_{t−1} + (δ − a_t)/(t + t₀),      log h_t = μ − √t/γ · H̄_t,
    log h̄_t = t^−κ log h_t + (1 − t^−κ) log h̄_{t−1},            μ = log 10 h₀, γ = 0.05, t₀ = 10, κ = 0.75.

The adapted chain is a kernel (`Seeking`) run by the one loop; every chain seeks its own step size and the result is
the geometric mean of them, or, with `per_chain`, each its own in PerChain(kernel).

References
----------
Hoffman & Gelman (2014), The No-U-Turn sampler, §3.2.1, eqs. (6)-(7).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core.advance import MAPPED, advance
from langevin.core.kernel import PerChain, Wrapper, replace, spread
from langevin.core.record import record
from langevin.core.types import Key, State
from langevin.tune.positions import tuner


class Dual(NamedTuple):
    """t, H̄, log h, log h̄."""

    t: jax.Array
    gap: jax.Array
    log_step: jax.Array
    log_mean: jax.Array


@record
class Seeking(Wrapper):
    """A kernel whose step size moves towards an acceptance rate; the numbers live in `memory`.

    kernel: the kernel.
    acceptance: δ.
    """

    kernel: Any
    acceptance: float = 0.8

    def init(self, key, position, target):
        return self.adopt(self.kernel.init(key, position, target))

    def adopt(self, state: State) -> State:
        """A state of the inner kernel as one of this."""
        zero = jnp.zeros(())
        step = jnp.log(jnp.asarray(self.kernel.step_size, jnp.float32))
        return state._replace(memory=(state.memory, Dual(zero, zero, step, step)))

    def step(self, key, state, target):
        memory, dual = state.memory
        inner = replace(self.kernel, step_size=jnp.exp(dual.log_step))
        new, info = inner.step(key, state._replace(memory=memory), target)
        t = dual.t + 1
        gap = dual.gap + (self.acceptance - info.acceptance - dual.gap) / (t + 10.0)
        mu = jnp.log(10.0 * self.kernel.step_size)
        log_step = jnp.clip(mu - jnp.sqrt(t) / 0.05 * gap, -25.0, 10.0)
        weight = t**-0.75
        dual = Dual(t, gap, log_step, weight * log_step + (1 - weight) * dual.log_mean)
        return new._replace(memory=(new.memory, dual)), info


@tuner
def dual_averaging(
    key, kernel, target, states, *, acceptance: float = 0.8, steps: int = 300, per_chain: bool = False
) -> tuple[Any, State]:
    """The kernel with a step size at which it accepts at the rate asked for, and the states it got to."""
    log_step, states, _ = seek(key, kernel, target, states, acceptance, steps)
    if not per_chain:
        return replace(kernel, step_size=jnp.exp(jnp.mean(log_step))), states
    return PerChain(replace(spread(kernel, log_step.shape[0]), step_size=jnp.exp(log_step))), states


def seek(key: Key, kernel, target, states: State, acceptance: float, steps: int, length: int | None = None):
    """`steps` steps of the seeking kernel: each chain's log h̄, the states, and the positions on the way.

    length: a bound on steps; calls with the same bound share one compiled program.
    """
    seeking, length = Seeking(kernel, acceptance), length or steps
    begin = jax.vmap(seeking.adopt, (MAPPED,), MAPPED)(states)
    out = advance(key, seeking, target, begin, length=length, n=np.int32(steps))
    memory, dual = out.states.memory
    kept = jax.tree.map(lambda u: np.asarray(u)[:, :steps], out.kept)
    return dual.log_mean, out.states._replace(memory=memory), kept
