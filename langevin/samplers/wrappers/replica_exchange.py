r"""Replica exchange: any kernel at several temperatures side by side, which now and then swap their positions.

K replicas of the inner kernel run at T τ_k, τ_1 = 1 < τ_2 < …, T its own temperature; hot ones cross barriers. Every
`every` steps neighbours k, k+1 (the even pairs, then the odd ones) swap with probability min(1, S̃),

    S̃ = exp{Δ [Ũ_k − Ũ_{k+1} − Δ σ²/F]},      Δ = 1/(T τ_k) − 1/(T τ_{k+1}),      U = −log p,

σ² half the variance of the estimated difference. On an exact target Ũ = U, σ² = 0 and this is plain replica exchange.
On a mini-batched target all replicas of a group are evaluated on one fresh batch, which the next step does not use; its
two halves give Ũ (their mean) and a sample of σ² (their difference squared, over 8), smoothed as σ̂² ← (1 − s) σ̂² + s
· sample.

Why the correction is right: with Gaussian noise of known variance 2σ² on the difference, accepting with min(1, S̃), F
= 1, keeps detailed balance exactly (the penalty method of Ceperley & Dewing). Without it (F = ∞) the swaps are too
many and the cold replica is too hot. F > 1 trades that bias for more swaps.

A swap exchanges position, its evaluation and the inner kernel's memory; temperatures and momenta stay where they are,
for N(0, T τ_k) is independent of position, so that U alone decides. The law of the product of replicas is ∏
p^{1/(Tτ_k)}, to the inner kernel's order; the first replica's draws are collected, the others carry log_weight =
−inf. If the inner kernel evaluates elsewhere than at `position`, swaps are off by O(h). σ̂² and the smoothed swap
rate of each pair are in `memory`.

References
----------
Swendsen & Wang (1986), Replica Monte Carlo simulation of spin-glasses.
Ceperley & Dewing (1999), The penalty method for random walks with uncertain energies.
Deng, Feng, Gao, Liang & Lin (2020), Non-convex learning via replica exchange stochastic gradient MCMC, alg. 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from langevin.core import noise
from langevin.core.advance import MAPPED
from langevin.core.kernel import Wrapper, audited, check_fields, kernel, named, replace
from langevin.core.record import nonnegative, positive
from langevin.core.schedule import at
from langevin.core.types import Law

FIRST = 16  # batches behind the first estimate of σ²


class Swaps(NamedTuple):
    """Of the pair (k, k+1), on replica k: σ̂² and the smoothed probability of a swap."""

    variance: jax.Array
    rate: jax.Array


@kernel
class ReplicaExchange(Wrapper):
    """Copies of a kernel at several temperatures, exchanging positions.

    kernel: the kernel; it has a temperature and a step_size.
    temperatures: τ, as multiples of the kernel's own temperature, rising from 1; one replica for each.
    every: steps between attempts to swap.
    factor: F, 1 for swaps without bias; larger for more of them.
    smoothing: s, the weight of a new sample of σ².
    stretch: replica k steps with h τ_k^stretch.
    """

    kernel: Any
    temperatures: Any = (1.0, 2.0)
    every: int = positive(default=10)
    factor: float = positive(default=1.0)
    smoothing: float = positive(default=0.02)
    stretch: float = nonnegative(default=0.0)
    audit = audited(variants={"": lambda: ReplicaExchange(named("sgld")(step_size=0.05), (1.0, 2.0), every=2)})

    def __post_init__(self):
        ladder = jnp.asarray(self.temperatures, jnp.result_type(float))
        if ladder.ndim < 1 or ladder.shape[-1] < 2:
            raise ValueError(
                f"ReplicaExchange: temperatures are {self.temperatures}; there must be two or more, rising from 1."
            )
        check_fields(self.kernel, ("temperature", "step_size"), "ReplicaExchange")
        if self.kernel.group > 1:
            raise ValueError(
                "ReplicaExchange: this kernel moves chains in groups of its own; put the ReplicaExchange inside it."
            )
        object.__setattr__(self, "temperatures", ladder)

    @property
    def group(self) -> int:
        return self.temperatures.shape[-1]

    @property
    def temperature(self):
        return self.kernel.temperature

    @property
    def step_size(self):
        return self.kernel.step_size

    def inner(self, ratio, count):
        """The kernel of the replica at T·ratio."""
        h, T = at(self.kernel.step_size, count), at(self.kernel.temperature, count)
        return replace(self.kernel, step_size=h * ratio**self.stretch, temperature=T * ratio)

    def init(self, key, position, target):
        k_init, k_swap = jax.random.split(key)
        zero = jnp.zeros((), jnp.int32)
        one = lambda key, ratio, position: self.inner(ratio, zero).init(key, position, target)
        state = jax.vmap(one, out_axes=MAPPED)(jax.random.split(k_init, self.group), self.temperatures, position)
        variance = none = jnp.zeros(self.group)
        if target.stochastic:
            words, wrap = noise.words(jax.random.split(k_swap, FIRST))
            samples = lax.map(lambda word: self._difference(wrap(word), state, target)[1], words)
            variance = jnp.mean(samples, axis=0)
        return state._replace(memory=(state.memory, Swaps(variance, none)))

    def step(self, key, state, target):
        k_move, k_swap = jax.random.split(key)
        memory, swaps = state.memory
        move = lambda key, ratio, state: self.inner(ratio, state.count).step(key, state, target)
        alone = state._replace(memory=memory)
        keys = jax.random.split(k_move, self.group)
        new, info = jax.vmap(move, (0, 0, MAPPED), (MAPPED, 0))(keys, self.temperatures, alone)
        cold = jnp.arange(self.group) == 0
        info = info._replace(log_weight=jnp.where(cold, info.log_weight, -jnp.inf))
        due = new.count % jnp.asarray(self.every, jnp.int32) == 0
        words, impl = jax.random.key_data(k_swap), jax.random.key_impl(k_swap)

        def attempt(words, parts):
            return self._swapped(jax.random.wrap_key_data(words, impl=impl), new, target, parts)

        parts = (new.position, new.memory, new.eval), swaps, info
        (position, memory, evaluation), swaps, info = lax.cond(due, attempt, lambda words, parts: parts, words, parts)
        return new._replace(position=position, memory=(memory, swaps), eval=evaluation), info

    def _swapped(self, key, state, target, parts):
        """An attempt of every second pair of neighbours."""
        k_look, k_accept = jax.random.split(key)
        moved, swaps, info = parts
        K, T, noisy = self.group, at(self.kernel.temperature, state.count), target.stochastic
        difference = _next(state.eval.log_density) - state.eval.log_density  # U_k − U_{k+1}
        variance = swaps.variance
        if noisy:
            difference, sample, n_data = self._difference(k_look, state, target)
            variance = variance + self.smoothing * (sample - variance)
            info = info._replace(n_grad=info.n_grad + 2, n_data=info.n_data + n_data)
        gap = (1 / self.temperatures - 1 / _next(self.temperatures)) / T
        log_ratio = gap * (difference - gap * variance / self.factor)
        probability = jnp.where(jnp.isnan(log_ratio), 0.0, jnp.exp(jnp.minimum(log_ratio, 0.0)))
        k = jnp.arange(K)
        turn = jnp.where(K > 2, state.count // jnp.asarray(self.every, jnp.int32) % 2, 0)
        tried = (k % 2 == turn) & (k < K - 1)
        up = tried & (jax.random.uniform(k_accept, (K,)) < probability)
        source = jnp.where(up, k + 1, jnp.where(jnp.roll(up, 1), k - 1, k))
        moved = jax.tree.map(lambda u: u[source], moved)
        rate = jnp.where(tried, swaps.rate + self.smoothing * (probability - swaps.rate), swaps.rate)
        info = info._replace(log_density=moved[2].log_density.astype(info.log_density.dtype), ok=info.ok[source])
        return moved, Swaps(variance, rate), info

    def _difference(self, key, state, target):
        """Ũ_k − Ũ_{k+1} on one fresh batch, a sample of σ², and the examples evaluated."""
        first = jax.tree.map(lambda u: u[0], state.feed)
        halves = target.parts(target.draw(key, first)[0], 2)
        looks = [
            jax.vmap(lambda position, half=half: target.evaluate(half, position))(state.position) for half in halves
        ]
        a, b = (_next(look.log_density) - look.log_density for look in looks)
        return 0.5 * (a + b), 0.125 * (a - b) ** 2, looks[0].n_data + looks[1].n_data

    def law(self) -> Law:
        inner = self.kernel.law()
        return inner._replace(
            words=f"the first replica: {inner.words}; the others, at their temperatures, are not collected"
        )


def _next(u):
    """u of the next hotter replica; the last has none and sees itself."""
    return jnp.concatenate([u[1:], u[-1:]])
