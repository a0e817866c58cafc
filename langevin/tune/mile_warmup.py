r"""Warm-up of MILE: from a trained network to its posterior, with metric and step size re-estimated in every round.

A trained network is not a typical draw of its posterior: it lies near a mode, and the scales around a chain change
while it moves away from there. In every round a chain

1. takes its metric from the gradients of single examples at its position (`tune.fisher`: directions stiffer than κ
   times the prior are shortened);
2. runs with its step size set by the energy error, Var[ΔE] ∝ ε⁶ (`tune.mclmc`), at a variance that falls
   geometrically from round to round.

Many short rounds do better than few long ones with a metric that is not updated. Metric and step size of the last round
are frozen. Every chain has its own: the result is PerChain(kernel).

References
----------
Sommer, Robnik, Nozadze, Seljak & Rügamer (2025), Microcanonical Langevin ensembles (MILE), §3 (energy schedule).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core.advance import MAPPED, advance, chains_of
from langevin.core.kernel import PerChain, replace
from langevin.core.rounds import repeat
from langevin.core.types import Key, State
from langevin.tune.fisher import fisher
from langevin.tune.mclmc import Seeking, Wanted
from langevin.tune.positions import tuner
from langevin.tune.warm_start import nothing

MEMORY = 50.0  # steps over which the energy error is averaged


@tuner
def mile_warmup(
    key,
    kernel,
    target,
    states,
    *,
    rounds: int = 30,
    steps: int = 200,
    variance: tuple[float, float] = (0.3, 0.003),
    damping: float = 1000.0,
    rank: int = 64,
    examples: int = 256,
) -> tuple[PerChain, State]:
    """The kernel with metric and step size tuned in `rounds` rounds of `steps` steps, and the states it got to."""
    if rounds < 1 or steps < 1:
        raise ValueError(f"mile_warmup: {rounds} rounds of {steps} steps; both must be 1 or more.")
    first, last = variance

    def one(i: int, kernel, states: State) -> tuple[PerChain, State]:
        k_metric, k_run = jax.random.split(jax.random.fold_in(key, i))
        kernel, states = fisher(k_metric, kernel, target, states, rank=rank, examples=examples, damping=damping)
        wanted = first * (last / first) ** (i / max(rounds - 1, 1))
        return _sought(k_run, kernel, target, states, wanted, steps)

    return repeat(one, kernel, states, target, rounds=rounds)


def _sought(key: Key, kernel: PerChain, target, states: State, variance: float, steps: int) -> tuple[PerChain, State]:
    """A stretch in which every chain seeks its step size."""
    seeking, states = _seeking(kernel, states, variance)
    out = advance(key, seeking, target, states, length=steps, collect=nothing, n=np.int32(steps))
    return _found(kernel, out.states)


@jax.jit
def _seeking(kernel: PerChain, states: State, variance) -> tuple[PerChain, State]:
    spread = lambda value: jnp.full(chains_of(states), value)
    wanted = Wanted(spread(variance), spread(variance), spread(0), spread(1))
    seeking = Seeking(kernel.kernel, wanted, spread(1.5), spread(MEMORY), spread(1.0))
    return PerChain(seeking), jax.vmap(lambda k, s: k.adopt(s), (0, MAPPED), MAPPED)(seeking, states)


@jax.jit
def _found(kernel: PerChain, states: State) -> tuple[PerChain, State]:
    memory, sought = states.memory
    return PerChain(replace(kernel.kernel, step_size=jnp.exp(sought.log_step))), states._replace(memory=memory)
