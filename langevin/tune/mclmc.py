r"""Step size to an energy error, and the length L, for motion at constant speed: the tuning of MCLMC and of MILE.

For a step of size ε the energy error ΔE of a second-order integrator has E[ΔE²] ∝ ε⁶, and the bias of the chain is told
by v = E[ΔE²]/d. With v the energy variance asked for, at every step

    ξ = ΔE²/(d v) + 10⁻⁸,      w = exp(−½ (log ξ/(6 s))²),      X ← ρX + w ξ/ε⁶,   W ← ρW + w,   ε ← (X/W)^−1/6,

s the trust in a single estimate and ρ = (n − 1)/(n + 1) for a memory of n steps. What is carried is r = (X/W) ε⁶, the
ξ expected at ε, for X itself would leave float32: r ← (ρ W r + w ξ)/(ρ W + w), ε' = ε r^−1/6, r' = r (ε'/ε)⁶.

Two things are added. ε at most doubles in a step, so that one small ΔE does not throw the chain far. And where ξ < 10⁻⁴
for ten steps in a row, ε is so small that ΔE is rounding and says nothing of ε⁶: then W ← 0 at every step until ξ is
larger. Without it the first estimates are forgotten only after thousands of steps.

A step that ends where position, log density, gradient or energy are not finite is undone: position and evaluation
go back together, the velocity is drawn anew, and from then on ε ≤ ε_max = 0.8 ε. Such a step says nothing of E[ΔE²].

Schedule, with a share of the steps each:

1. ε, every chain its own. v is a number, or goes from a first to a last one, in a straight line, or in a geometric
   one where the first is above 2 (MILE starts from trained networks, which are no typical draws, with 0.5 to 0.1).
2. L = √(Σ_i Var θ_i), ε still moving. With `diagonal`, instead, the metric becomes the variances within chains pooled
   over chains, L = √d, and in the last third of the phase ε is sought anew.
3. L = 0.4 ε · mean_i (steps for each effective draw of θ_i), ε fixed.

The result has the geometric mean of ε over chains and the mean of L, or, with `per_chain`, each chain its own. On
mini-batches ΔE compares two batches, its variance does not vanish with ε, and ε falls without end: give the target
all its data. `tune.trajectory` has what L needs.

References
----------
Robnik & Seljak (2024), Fluctuation without dissipation: microcanonical Langevin Monte Carlo, §4.
Sommer, Robnik, Nozadze, Seljak & Rügamer (2025), Microcanonical Langevin ensembles (MILE), §3.
Cabezas et al. (2024), BlackJAX: composable Bayesian inference in JAX, `mclmc_adaptation`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import tree
from langevin.core.advance import MAPPED, chains_of
from langevin.core.kernel import PerChain, Wrapper, replace, spread, warn_once
from langevin.core.record import record
from langevin.core.types import State
from langevin.dynamics.isokinetic import uniform
from langevin.dynamics.mass import DiagonalMetric
from langevin.tune.positions import tuner
from langevin.tune.trajectory import chosen, forgetting, mean, needs, pace, size, watched

SHRINK = 0.8  # of ε, after a step that was undone
WILD = 100.0  # energy error, beyond one a dimension, of a step over a cliff: it is undone as one that is not finite
POWER = 6.0  # of ε in E[ΔE²]
LEAST, MOST = 1e-8, 1e30  # of ξ
LOW, PATIENCE = 1e-4, 10  # ξ this low for so many steps: ΔE is rounding


class Sought(NamedTuple):
    """W, r, log ε, log ε_max and L of a chain, and for how many steps ξ has been low."""

    weight: jax.Array
    ratio: jax.Array
    log_step: jax.Array
    log_most: jax.Array
    length: jax.Array
    low: jax.Array


@record
class Wanted:
    """The energy variance asked for: from `first` at step `begin` to `last` in `steps` steps, then `last`.

    first: at the start.
    last: at the end.
    begin: the count of steps at which it starts.
    steps: how long it takes.
    """

    first: float
    last: float
    begin: int
    steps: int

    def __call__(self, count):
        part = jnp.clip((count - self.begin) / self.steps, 0.0, 1.0)
        straight = self.first + (self.last - self.first) * part
        return jnp.where(self.first > 2, self.first * (self.last / self.first) ** part, straight)


@record
class Seeking(Wrapper):
    """A kernel whose step size moves towards an energy error; the numbers live in `memory`.

    kernel: the kernel.
    variance: v, a schedule.
    trust: s, in log ξ/6.
    memory: n, in steps.
    moving: 1 where ε moves, 0 where it stays and only steps that are undone shrink it.
    """

    kernel: Any
    variance: Wanted
    trust: float = 1.5
    memory: float = 150.0
    moving: float = 1.0

    def init(self, key, position, target):
        return self.adopt(self.kernel.init(key, position, target))

    def adopt(self, state: State) -> State:
        """A state of the inner kernel as one of this."""
        number = lambda value: jnp.asarray(value, jnp.float32)
        step, length = jnp.log(number(self.kernel.step_size)), number(self.kernel.length)
        return state._replace(
            memory=(state.memory, Sought(number(0), number(1), step, number(jnp.inf), length, number(0)))
        )

    def step(self, key, state, target):
        k_step, k_velocity = jax.random.split(key)
        memory, sought = state.memory
        inner = replace(self.kernel, step_size=jnp.exp(sought.log_step), length=sought.length)
        new, info = inner.step(k_step, state._replace(memory=memory), target)
        d = tree.size(state.position)
        fine = jnp.isfinite(info.energy_error + new.eval.log_density) & jnp.all(jnp.isfinite(new.aux))
        fine &= jnp.abs(info.energy_error) < d + WILD
        undone = (state.position, uniform(k_velocity, state.position), memory, state.eval)
        position, velocity, memory, evaluation = tree.where(fine, (new.position, new.aux, new.memory, new.eval), undone)
        asked = d * self.variance(state.count)
        sought = self._moved(sought, jnp.where(fine, info.energy_error**2 / asked, 0.0), fine)
        new = new._replace(position=position, aux=velocity, memory=(memory, sought), eval=evaluation)
        return new, info._replace(ok=fine)

    def _moved(self, sought: Sought, xi, fine) -> Sought:
        """The numbers after a step whose error was ξ; a step that was undone has said nothing of ξ."""
        # neither a weight of zero to divide by nor an overflow
        xi = jnp.clip(xi + LEAST, LEAST, MOST)
        w = jnp.maximum(jnp.exp(-0.5 * (jnp.log(xi) / (POWER * self.trust)) ** 2), 1e-20)
        moves = fine & (self.moving > 0)
        low = jnp.where(moves, jnp.where(xi < LOW, sought.low + 1, 0.0), sought.low)
        lost = low >= PATIENCE
        old = jnp.where(lost, 0.0, (self.memory - 1) / (self.memory + 1) * sought.weight)
        ratio = jnp.where(moves, (old * sought.ratio + w * xi) / (old + w), sought.ratio)
        most = jnp.where(fine, sought.log_most, sought.log_step + np.log(SHRINK))
        change = jnp.where(moves, jnp.minimum(-jnp.log(ratio) / POWER, np.log(2.0)), 0.0)
        step = jnp.maximum(jnp.minimum(sought.log_step + change, most), -60.0)
        ratio = ratio * jnp.exp(POWER * (step - sought.log_step))
        return Sought(jnp.where(moves, old + w, sought.weight), ratio, step, most, sought.length, low)


@tuner
def tune_mclmc(
    key,
    kernel,
    target,
    states,
    *,
    steps: int = 3000,
    variance: float | tuple[float, float] = 5e-4,
    trust: float = 1.5,
    memory: float = 150,
    share: tuple[float, float, float] = (1 / 3, 1 / 3, 1 / 3),
    diagonal: bool = False,
    per_chain: bool = False,
) -> tuple[Any, State]:
    """The kernel with ε and L (and a diagonal metric) tuned in about `steps` steps, and the states it got to."""
    first, last = _checked(kernel, target, states, steps=steps, variance=variance, share=share)
    one, two, three = (round(steps * part) for part in share)
    if diagonal:
        # a metric of its final kind from the start, so that there is one compiled program
        kernel = replace(kernel, metric=DiagonalMetric(jax.tree.map(lambda u: jnp.ones_like(u[0]), states.position)))
    k_chosen, *keys = jax.random.split(key, 5)
    keep, at = chosen(k_chosen, states), pace(max(two, three) or one)
    seeking = Seeking(kernel, Wanted(first, last, int(states.count), max(one, 1)), trust, memory)
    go = lambda key, seeking, states, n: watched(key, seeking, target, states, keep, steps=n, at=at)

    states = jax.vmap(seeking.adopt, (MAPPED,), MAPPED)(states)
    if one:
        states, _ = go(keys[0], seeking, states, one)
    if two:
        third = two // 3 if diagonal else 0
        states, seen = go(keys[1], replace(seeking, moving=float(one > 0)), states, two - third)
        states = _with(states, length=size(seen.variance), per_chain=per_chain)
        if diagonal:
            seeking, states = _scaled(seeking, states, seen.variance)
            states, _ = go(keys[2], seeking, states, third)
    states = _with(states, per_chain=per_chain)
    if three:
        states, seen = go(keys[3], replace(seeking, moving=0.0), states, three)
        path = at[1] * np.exp(np.asarray(states.memory[1].log_step, np.float64))
        states = _with(states, length=0.4 * path * forgetting(seen.draws), per_chain=per_chain)
    return _tuned(seeking.kernel, states, per_chain)


def _checked(kernel, target, states, *, steps, variance, share) -> tuple[float, float]:
    """The first and the last energy variance, after checks of all arguments."""
    needs("tune_mclmc", kernel, ("step_size", "length"))
    chains, positions = chains_of(states), states.position
    if not (isinstance(states.aux, jax.Array) and states.aux.shape == (chains, tree.size(positions) // chains)):
        raise TypeError(
            f"tune_mclmc: the states of {type(kernel).__name__} carry no velocity; pass a kernel that moves at "
            "constant speed, like MCLMC, and its states."
        )
    if steps < 1:
        raise ValueError(f"tune_mclmc: steps is {steps}; it must be 1 or more, better 1,000.")
    pair = tuple(variance) if isinstance(variance, (tuple, list)) else (variance, variance)
    if len(pair) != 2 or not all(v > 0 for v in pair):
        raise ValueError(f"tune_mclmc: variance is {variance}; it must be positive, or two such: at first, at last.")
    if len(share) != 3 or min(share) < 0 or not 0 < sum(share) <= 1 + 1e-6:
        raise ValueError(f"tune_mclmc: share is {share}; it must be three numbers, none negative, of sum 1 or less.")
    if target.stochastic:
        warn_once(
            "tune_mclmc: on mini-batches the energy error compares two batches and does not vanish with the step size, "
            "which then falls without end; give the target all its data (batch=None)."
        )
    return pair


def _with(states: State, *, length: np.ndarray | None = None, per_chain: bool) -> State:
    """Chains with a new L where it is known; unless `per_chain`, all with one ε and one L."""
    memory, sought = states.memory
    if length is not None:
        old = np.asarray(sought.length)
        each = np.where(np.isfinite(length) & (length > 0), length, old)
        each = each if per_chain else np.full_like(old, mean(length, old[0]))
        sought = sought._replace(length=jnp.asarray(each, jnp.float32))
    elif not per_chain:
        sought = sought._replace(log_step=jnp.full_like(sought.log_step, jnp.mean(sought.log_step)))
    return states._replace(memory=(memory, sought))


def _scaled(seeking: Seeking, states: State, variance) -> tuple[Seeking, State]:
    """Coordinates scaled to unit variance: the metric, L = √d, and ε in the new unit of length, to be sought anew."""
    pooled = jax.tree.map(lambda u: jnp.mean(u, 0), variance)
    d = tree.size(pooled)
    least = 1e-12 * sum(jnp.sum(u) for u in jax.tree.leaves(pooled)) / d  # where a coordinate has not moved
    metric = DiagonalMetric(jax.tree.map(lambda u: jnp.maximum(u, least), pooled))
    memory, old = states.memory
    full = lambda value: jnp.full_like(old.length, value)
    step = old.log_step + jnp.log(jnp.sqrt(d) / old.length)
    sought = Sought(full(0), full(1), step, full(jnp.inf), full(jnp.sqrt(d)), full(0))
    return replace(seeking, metric=metric), states._replace(memory=(memory, sought))


def _tuned(kernel, states: State, per_chain: bool) -> tuple[Any, State]:
    memory, sought = states.memory
    states, step = states._replace(memory=memory), jnp.exp(sought.log_step)
    if not per_chain:
        step = jnp.exp(jnp.mean(sought.log_step))
        return replace(kernel, step_size=step, length=jnp.mean(sought.length)), states
    return PerChain(replace(spread(kernel, chains_of(states)), step_size=step, length=sought.length)), states
