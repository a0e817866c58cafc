r"""Thermodynamic integration on mini-batches: one chain a particle that rests at each of a few temperatures.

    log Z = ∫₀¹ E_β[log p̃ − log q] dβ ≈ Σ_j ½ (β_j − β_{j−1}) (ū_j + ū_{j−1}),

ū_j the mean of mini-batch estimates over the later half of the steps at β_j, taken at midpoints of noisy leapfrog steps
(`trajectory`). Estimates enter linearly, so noise does not bias them; steps that are noisy heat the chain a
little, and the trapezoid has an error of its own: consistent as steps and temperatures grow, on neither side for sure.
u falls as 1/β near the base, so temperatures are (j/J)⁴.

References
----------
Gelman & Meng (1998), Simulating normalizing constants, §3 (path sampling).
Calderhead & Girolami (2009), Estimating Bayes factors via thermodynamic integration and population MCMC (the powers).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from langevin.core import noise
from langevin.core.record import static
from langevin.core.target import HasBatches
from langevin.evidence.annealing.ladder import power_ladder, to_ladder
from langevin.evidence.method import Method, method
from langevin.evidence.minibatch.midpoint import average_scores
from langevin.evidence.minibatch.preparation import Control, choose_steps, prepare
from langevin.evidence.minibatch.trajectory import Scored, move
from langevin.evidence.types import Evidence
from langevin.evidence.weights import add


@method("stages")
class Stages(Method):
    """The trapezoid over temperatures on mini-batches, the mean over particles: consistent.

    ladder: temperatures, or how many.
    steps: at each of them.
    particles: chains.
    control: of the noise of gradients: "auto", "curvature", "mode", "svrg" or "none".
    h: the square of a step in units of the shortest scale; None to choose it.
    """

    ladder: Any = static(default=32)
    steps: int = static(default=200)
    particles: int = static(default=64)
    control: Control = static(default="auto")
    h: float | None = None
    requires = HasBatches
    minibatches = "used"

    def estimate_evidence(self, key, target, base, draws) -> Evidence:
        k_start, k_run = jax.random.split(key)
        ready = prepare(k_start, target, base, self.particles, self.control)
        beta = power_ladder(self.ladder, 4.0) if isinstance(self.ladder, (int, np.integer)) else to_ladder(self.ladder)
        mover = choose_steps(ready, self.steps * len(beta), h=self.h)
        scored = rest_at_all(k_run, ready.target, base, mover, beta, ready.starts, steps=self.steps)
        return average_scores(scored, ready.n_data)


@partial(jax.jit, static_argnames="steps")
def rest_at_all(key, target, base, mover, beta, starts, *, steps) -> Scored:
    """Chains that rest at each β for so many steps, and their trapezoids."""
    words, wrap = noise.words(jax.random.split(key, jax.tree.leaves(starts)[0].shape[0]))
    one = lambda word, start: _chain(wrap(word), target, base, mover, beta, start, steps)
    return jax.vmap(one)(words, starts)


def _chain(key, target, base, mover, beta, start, steps) -> Scored:
    k_feed, k_start, k_steps = jax.random.split(key, 3)
    words, wrap = noise.words(jax.random.split(k_steps, len(beta)))
    zero = jnp.zeros(())

    def rest(carry, x):
        """The steps at one temperature; their later half gives ū."""
        theta, v, feed, count = carry
        word, now = x
        inner, again = noise.words(jax.random.split(wrap(word), steps))

        def step(carry, x):
            theta, v, feed, total, count = carry
            i, word = x
            new = move(again(word), target, base, mover, now, i, theta, v, feed)
            return (*new[:3], add(total, jnp.where(i >= steps // 2, new.ratio, 0.0)), count + new.n_data), None

        carry, _ = lax.scan(step, (theta, v, feed, (zero, zero), count), (jnp.arange(steps), inner))
        theta, v, feed, (total, _), count = carry
        return (theta, v, feed, count), total / (steps - steps // 2)

    begin = start, noise.like(k_start, start), target.start(k_feed), jnp.zeros((), jnp.int32)
    (theta, _, _, count), mean = lax.scan(rest, begin, (words, beta))
    score = jnp.sum(0.5 * jnp.diff(beta) * (mean[1:] + mean[:-1]))
    return Scored(theta, score, zero, count)
