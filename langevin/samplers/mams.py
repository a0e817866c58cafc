r"""Metropolis-adjusted microcanonical sampling: trajectories of constant speed, accepted or rejected.

    u ~ Uniform;  n steps of a palindromic integrator of the isokinetic flow;  accept with min(1, e^{−ΔE}).

The flow keeps p(θ) × Uniform(u) up to ΔE, and so the law is p^(1/T), exactly. The length of a trajectory varies:
n = ⌈2 x L/ε⌉, of mean L/ε, x the t-th number of the van der Corput sequence at step t, the same for all chains. With
`memory` the velocity is refreshed in part before and after every integrator step, which is a symmetric move at no
change of energy; it makes the kernel less sensitive to L.

References
----------
Robnik, Cohn-Gordon & Seljak (2025), Metropolis-adjusted microcanonical Hamiltonian Monte Carlo (MAMS), alg. 1, §4.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from langevin.core import noise
from langevin.core.kernel import Kernel, audited, begin, kernel, metropolis, report
from langevin.core.record import positive, static
from langevin.core.schedule import Schedule, at
from langevin.core.target import HasDensity, evaluator
from langevin.core.types import Law
from langevin.dynamics.integrators import INTEGRATORS
from langevin.dynamics.isokinetic import Point, glide, refreshed, uniform
from langevin.dynamics.mass import IdentityMetric, Metric

LONGEST = 1 << 10  # integrator steps: a bound on n where L/ε is absurd


@kernel
class MAMS(Kernel):
    """Trajectories at constant speed, accepted or rejected.

    step_size: ε, a length in θ (in φ if there is a metric).
    length: L, the mean length of a trajectory.
    memory: over how many L the direction is forgotten within a trajectory; None: not at all.
    temperature: T; the chain targets p^(1/T).
    metric: IdentityMetric(), DiagonalMetric(variance), LowRankMetric(…) or DenseMetric(covariance).
    integrator: "verlet", "mclachlan", "omelyan" or "yoshida".
    """

    step_size: Schedule = positive(default=0.1)
    length: Schedule = positive(default=1.0)
    memory: float | None = static(default=None)
    temperature: Schedule = positive(default=1.0)
    metric: Metric = IdentityMetric()
    integrator: str = static(default="mclachlan")
    requires = HasDensity
    audit = audited(step_size=1.0, length=4.0)

    def __post_init__(self):
        if self.integrator not in INTEGRATORS:
            raise ValueError(f"MAMS: integrator is {self.integrator!r}; it must be one of {', '.join(INTEGRATORS)}.")

    def init(self, key, position, target):
        return begin(key, position, target)

    def step(self, key, state, target):
        k_draw, k_velocity, k_forget, k_accept = jax.random.split(key, 4)
        h, L, T = (at(v, state.count) for v in (self.step_size, self.length, self.temperature))
        evaluate, feed = evaluator(k_draw, target, state.feed)
        coefficients = INTEGRATORS[self.integrator]
        n = jnp.clip(jnp.ceil(2 * spread(state.count) * L / h), 1, LONGEST).astype(jnp.int32)
        words, wrap = noise.words(k_forget)

        def forgetful(i, half, point):
            if self.memory is None:
                return point
            key = jax.random.fold_in(wrap(words), 2 * i + half)
            return point._replace(velocity=refreshed(key, point.velocity, h / 2, self.memory * L))

        def one(i, carry):
            point, error = carry
            point, more = glide(coefficients, evaluate, self.metric, forgetful(i, 0, point), h, T)
            return forgetful(i, 1, point), error + more

        start = Point(state.position, uniform(k_velocity, state.position), state.eval)
        end, error = lax.fori_loop(0, n, one, (start, jnp.zeros(())))
        new, probability = metropolis(k_accept, error, state._replace(position=end.position, eval=end.eval), state)
        new = new._replace(feed=feed, count=state.count + 1)
        return new, report(new, acceptance=probability, energy_error=error, n_grad=n * coefficients.n_grad)

    def law(self) -> Law:
        return Law("exact", 0.0, None, "p^(1/T), exactly, on an exact target")


def spread(count):
    """The number after `count` of the van der Corput sequence in base 2: its bits mirrored, in (0, 1)."""
    bits = (count + 1).astype(jnp.uint32)
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF), (16, 0x0000FFFF)):
        bits = ((bits >> shift) & jnp.uint32(mask)) | ((bits & jnp.uint32(mask)) << shift)
    return (bits >> 8).astype(jnp.float32) / 2.0**24
