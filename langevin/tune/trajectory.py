r"""The length L over which a direction is kept, from how far the draws spread and how fast they forget; and MAMS tuned.

A first L is the size of the target, a second one a share of the path for which positions are remembered,

    L = √(Σ_i Var θ_i),      L = a · (path between two draws) · mean_i (draws/ESS_i),

with a = 0.3 for trajectories that are accepted or rejected and 0.4 for Langevin motion (`tune.mclmc`). Variances and
autocorrelations are those within chains, so that chains in different modes do not lengthen L; variances are summed on
the way, and the effective sample size (ESS, `core.moments.effective`) is that of at most 2,000 coordinates, chosen at
random by the key, at most 500 times a chain. Coordinates that never change are left out.

`tune_mams` tunes MAMS in three stretches, of a quarter, a quarter and half of the steps. In each ε seeks the acceptance
rate by dual averaging; from the second half of the first come the variances and with them the first L, from the second
half of the second comes the second L. By then ε hardly moves.

References
----------
Robnik, Cohn-Gordon & Seljak (2025), Metropolis-adjusted microcanonical Hamiltonian Monte Carlo (MAMS), §4 and §5.
Robnik & Seljak (2024), Fluctuation without dissipation: microcanonical Langevin Monte Carlo, §4.
Geyer (1992), Practical Markov chain Monte Carlo, §3.3.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from langevin.core import tree
from langevin.core.advance import MAPPED, advance, chains_of
from langevin.core.kernel import Wrapper, check_fields, replace
from langevin.core.moments import effective
from langevin.core.record import record, values
from langevin.core.types import Key, PyTree, State
from langevin.dynamics.integrators import INTEGRATORS
from langevin.tune.dual_averaging import Seeking
from langevin.tune.positions import tuner

KEPT = 500  # positions a chain from which autocorrelations are found
COORDINATES = 2000  # of a position that are kept


class Spread(NamedTuple):
    """How many positions, their mean, and Σ (θ − mean)²."""

    n: jax.Array
    mean: PyTree
    square: PyTree


@record
class Watching(Wrapper):
    """A kernel that sums up mean and variance of its positions in `memory`.

    kernel: the kernel.
    """

    kernel: Any

    def init(self, key, position, target):
        return self.adopt(self.kernel.init(key, position, target))

    def adopt(self, state: State) -> State:
        """A state of the inner kernel as one of this."""
        zero = tree.zeros_like(state.position)
        return state._replace(memory=(state.memory, Spread(jnp.zeros(()), zero, zero)))

    def step(self, key, state, target):
        memory, spread = state.memory
        new, info = self.kernel.step(key, state._replace(memory=memory), target)
        return new._replace(memory=(new.memory, include(spread, new.position))), info


def include(spread: Spread, position: PyTree) -> Spread:
    """One position more."""
    n = spread.n + 1
    gap = tree.sub(position, spread.mean)
    mean = tree.axpy(1 / n, gap, spread.mean)
    return Spread(n, mean, tree.add(spread.square, tree.mul(gap, tree.sub(position, mean))))


@record
class Chosen:
    """Keeps some coordinates of the raveled position.

    index: which.
    """

    index: jax.Array

    def __call__(self, state: State) -> jax.Array:
        return ravel_pytree(state.position)[0][self.index]


class Stretch(NamedTuple):
    """What is learnt from a stretch of steps: draws (chain, draw, coordinate), gradients a draw, variances a chain."""

    draws: np.ndarray
    n_grad: float
    variance: PyTree


def chosen(key: Key, states: State) -> Chosen:
    """At most COORDINATES of a position's coordinates, at random."""
    d = tree.size(states.position) // chains_of(states)
    return Chosen(jax.random.permutation(key, d)[:COORDINATES])


def pace(steps: int) -> tuple[int, int]:
    """Draws of a stretch of this many steps, and steps between two of them: at most KEPT draws."""
    thin = max(1, -(-steps // KEPT))
    return max(1, -(-steps // thin)), thin


def watched(key: Key, kernel, target, states: State, keep: Chosen, *, steps: int, at: tuple[int, int]):
    """About `steps` steps in pieces of one compiled program, `at` its draws and thinning: the states, and a Stretch.

    The draws of the Stretch are those of the last piece, the variances those of all.
    """
    watching, (length, thin) = Watching(kernel), at
    states = jax.vmap(watching.adopt, (MAPPED,), MAPPED)(states)
    go = partial(advance, length=length, thin=thin, collect=keep)
    left, n = max(1, round(steps / thin)), 0
    while left > 0:
        n = min(left, length)
        # the key of a draw folds in the count of steps, so the same key serves every piece
        out = go(jax.random.clone(key), watching, target, states, n=np.int32(n))
        states, left = out.states, left - n
    memory, spread = states.memory
    variance = jax.tree.map(lambda u: u / max(float(spread.n[0]) - 1, 1.0), spread.square)
    draws, costs = (np.asarray(u)[:, :n] for u in (out.kept, out.info.n_grad))
    return states._replace(memory=memory), Stretch(draws, float(costs.mean()), variance)


def size(variance: PyTree) -> np.ndarray:
    """√(Σ_i Var θ_i) of every chain."""
    return np.sqrt(sum(np.asarray(u, np.float64).reshape(len(u), -1).sum(1) for u in jax.tree.leaves(variance)))


def forgetting(draws: np.ndarray) -> np.ndarray:
    """Draws for each effective one, the mean over coordinates that change, of every chain; NaN if there is none."""
    if draws.shape[1] < 4:
        return np.full(len(draws), np.nan)
    each = [draws.shape[1] / effective(x[None].astype(np.float64)) for x in draws]
    known = [tau[np.isfinite(tau)] for tau in each]
    return np.array([tau.mean() if tau.size else np.nan for tau in known])


def mean(lengths: np.ndarray, default) -> float:
    """The mean over the chains whose length is known; the default if none is."""
    known = lengths[np.isfinite(lengths) & (lengths > 0)]
    return float(known.mean()) if known.size else float(default)


def needs(name: str, kernel: Any, fields: tuple[str, ...]) -> None:
    """Refuse a kernel without the fields that are to be tuned, or with schedules in their place."""
    check_fields(kernel, fields, name)
    given = values(kernel)
    for field in fields:
        if callable(given.get(field)):
            raise TypeError(f"{name}: {field} is a schedule; give it a number to start from.")


@tuner
def tune_mams(key, kernel, target, states, *, steps: int = 1000, acceptance: float = 0.9) -> tuple[Any, State]:
    """A kernel like MAMS with ε and L tuned in about `steps` steps, and the states it got to."""
    needs("tune_mams", kernel, ("step_size", "length", "integrator"))
    if not (0 < acceptance < 1):
        raise ValueError(f"tune_mams: acceptance is {acceptance}; it must be between 0 and 1.")
    if steps < 60:
        raise ValueError(f"tune_mams: {steps} steps are too few to tune by; give 60 or more, better 500.")
    k_chosen, *k_stretch = jax.random.split(key, 4)
    keep, per_step = chosen(k_chosen, states), INTEGRATORS[kernel.integrator].n_grad

    def sought(key, kernel, states, n):
        """ε after a stretch of two halves of n steps, and what the second half shows."""
        seeking = Seeking(kernel, acceptance)
        states = jax.vmap(seeking.adopt, (MAPPED,), MAPPED)(states)
        for k in jax.random.split(key):
            states, seen = watched(k, seeking, target, states, keep, steps=n, at=pace(steps // 4))
        memory, dual = states.memory
        return replace(kernel, step_size=jnp.exp(jnp.mean(dual.log_mean))), states._replace(memory=memory), seen

    kernel, states, seen = sought(k_stretch[0], kernel, states, steps // 8)
    kernel = replace(kernel, length=mean(size(seen.variance), kernel.length))
    kernel, states, seen = sought(k_stretch[1], kernel, states, steps // 8)
    path = float(kernel.step_size) * seen.n_grad / per_step
    kernel = replace(kernel, length=mean(0.3 * path * forgetting(seen.draws), kernel.length))
    kernel, states, _ = sought(k_stretch[2], kernel, states, steps // 4)
    return kernel, states
