r"""Contour stochastic gradient Langevin dynamics: a flattened energy, and weights that undo it.

The energies U = −log p are cut into bins of width Δ; φ estimates the mass of each bin under p^(1/T), J(θ) is the bin
of θ. log Ψ(u) is the broken line through log φ_i at the centres of the bins, constant beyond the first and the last.
The chain is Langevin dynamics on

    ϖ(θ) ∝ p^(1/T)(θ)/Ψ(U(θ))^ζ:      θ' = θ + h [1 + ζ T (log Ψ)'(U)] ĝ(θ) + √(2 T h) ξ.

Where low energies have been seen too often the factor turns negative and the chain climbs: ζ = 1 makes the energy
uniform. φ learns by stochastic approximation, with J' the bin of the new point and ω the gain,

    φ_i ← φ_i + ω φ_{J'}^ζ (1{i = J'} − φ_i).

Draws carry log_weight = ζ log Ψ(U). For a φ that stands still the weighted law is p^(1/T) *whatever φ*, with a bias
O(h): a poor φ costs effective sample size only. While φ learns, the law lags behind by O(ω) relaxation times; let ω
decrease.

Three things differ from the paper. It weighs by φ_J^ζ, constant in a bin: a bias O(Δ), which the broken line, the one
the drift follows, has not. Its line goes through the upper ends of bins, so that the lowest bin met does not push the
chain out of itself. And it follows log φ however steep: next to a bin that has not been met, or cannot be met from
this mode, the factor grows without bound, the step is unstable and the chain is held where it is. Here the rises of
log Ψ are cut off at ± limit Δ/(ζT), so that the factor stays within 1 ± limit; drift and weight follow the same Ψ, so
the law is as before. On a mini-batched target U is an estimate, and the weights inherit its noise.

References
----------
Deng, Lin & Liang (2020), A contour stochastic gradient Langevin dynamics algorithm for simulations of multi-modal
    distributions, alg. 1.
Wang & Landau (2001), Efficient, multiple-range random walk algorithm to calculate the density of states.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from langevin.core import noise
from langevin.core.kernel import Kernel, audited, begin, kernel, report
from langevin.core.noise import Noise
from langevin.core.record import nonnegative, positive, static
from langevin.core.schedule import Polynomial, Schedule, at
from langevin.core.types import Law


@kernel
class CSGLD(Kernel):
    """Langevin dynamics on a flattened energy; draws are weighted.

    step_size: h.
    temperature: T; the weighted draws target p^(1/T).
    low: the energy −log p at which the bins begin.
    width: Δ, the width of a bin.
    flattening: ζ; 0 is SGLD, 1 flattens all of the grid.
    gain: ω, a schedule; 0 leaves φ as it is.
    limit: how far the factor on the drift may be from 1; at least 1 to flatten.
    log_phi: log φ to begin with, (bins,); None for equal ones.
    bins: how many bins there are.
    noise: "normal" or "rademacher".
    """

    step_size: Schedule = positive(default=1e-3)
    temperature: Schedule = positive(default=1.0)
    low: float = 0.0
    width: float = positive(default=1.0)
    flattening: float = nonnegative(default=0.75)
    gain: Schedule = nonnegative(default=Polynomial(0.01, 1000.0, 0.8))
    limit: float = positive(default=2.0)
    log_phi: Any = None
    bins: int = static(default=50)
    noise: Noise = static(default="normal")
    audit = audited(excluded="its energy bins are chosen for one target; the tests audit it with bins to suit")

    def init(self, key, position, target):
        state = begin(key, position, target)
        log_phi = jnp.zeros(self.bins) if self.log_phi is None else jnp.asarray(self.log_phi)
        return state._replace(memory=jax.nn.log_softmax(log_phi))

    def place(self, energy):
        """Where an energy lies, in bins from the low end."""
        return (energy - self.low) / self.width

    def bin(self, energy):
        """J, energies off the grid in its first or last bin."""
        return jnp.clip(jnp.nan_to_num(jnp.floor(self.place(energy))), 0, self.bins - 1).astype(jnp.int32)

    def levels(self, log_phi, T):
        """log Ψ at the centre of every bin."""
        most = self.limit * self.width / jnp.maximum(self.flattening * T, 1e-6)
        rises = jnp.clip(jnp.diff(log_phi), -most, most)
        return jax.nn.log_softmax(jnp.concatenate([jnp.zeros(1), jnp.cumsum(rises)]))

    def step(self, key, state, target):
        k_noise, k_eval = jax.random.split(key)
        h, T = at(self.step_size, state.count), at(self.temperature, state.count)
        log_phi, energy = state.memory, -state.eval.log_density
        levels, place = self.levels(log_phi, T), self.place(energy) - 0.5
        inside = (place > 0) & (place < self.bins - 1)
        J = self.bin(energy - 0.5 * self.width)
        slope = jnp.where(inside, levels[J + 1] - levels[J], 0.0) / self.width
        drift, s = h * (1 + self.flattening * T * slope), jnp.sqrt(2 * T) * jnp.sqrt(h)
        position = jax.tree.map(
            lambda u, g, n: (u + drift * g + s * n).astype(u.dtype),
            state.position,
            state.eval.grad,
            noise.like(k_noise, state.position, self.noise),
        )
        evaluation, feed = target.estimate(k_eval, state.feed, position)
        energy = -evaluation.log_density
        J = self.bin(energy)
        share = at(self.gain, state.count) * jnp.exp(self.flattening * log_phi[J])
        others = log_phi + jnp.log1p(-share)
        log_phi = others.at[J].set(jnp.logaddexp(others[J], jnp.log(share)))
        new = state._replace(position=position, memory=log_phi, eval=evaluation, feed=feed, count=state.count + 1)
        log_psi = jnp.interp(self.place(energy), jnp.arange(self.bins) + 0.5, levels)
        return new, report(new, log_weight=self.flattening * log_psi)

    def law(self) -> Law:
        words = "p^(1/T) for draws weighted by e^log_weight, as h → 0 and φ settles; bias O(h)"
        return Law("order", 1.0, None, words)
