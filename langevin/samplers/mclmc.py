r"""Microcanonical Langevin Monte Carlo: constant speed, turning towards where p is large, forgetting its direction.

    O(ε/2) · palindrome of kicks B and drifts A over ε · O(ε/2),

A, B and O as in `dynamics.isokinetic`. As ε → 0 the law is p^(1/T) for any L; for finite ε the bias is O(ε²), told by
the energy error, Var[ΔE] ∝ ε⁶ (`tune.mclmc` sets ε and L by it). Steps are lengths in θ: with scales of order one in d
dimensions ε and L are of order √d. Every batch of a mini-batched target is used for one whole step.

References
----------
Robnik & Seljak (2024), Fluctuation without dissipation: microcanonical Langevin Monte Carlo, §3 and alg. 1.
Sommer, Robnik, Nozadze, Seljak & Rügamer (2025), Microcanonical Langevin ensembles (MILE), §3.
"""

from __future__ import annotations

import jax

from langevin.core.kernel import Kernel, audited, begin, kernel, report
from langevin.core.record import positive, static
from langevin.core.schedule import Schedule, at
from langevin.core.target import evaluator
from langevin.core.types import Law
from langevin.dynamics.integrators import INTEGRATORS
from langevin.dynamics.isokinetic import Point, glide, refreshed, uniform
from langevin.dynamics.mass import IdentityMetric, Metric


@kernel
class MCLMC(Kernel):
    """Motion at constant speed that turns with the gradient and slowly forgets its direction.

    step_size: ε, a length in θ (in φ if there is a metric).
    length: L, over which the direction is forgotten.
    temperature: T; the chain targets p^(1/T).
    metric: IdentityMetric(), DiagonalMetric(variance), LowRankMetric(…) or DenseMetric(covariance).
    integrator: "verlet", "mclachlan", "omelyan" or "yoshida".
    """

    step_size: Schedule = positive(default=0.1)
    length: Schedule = positive(default=1.0)
    temperature: Schedule = positive(default=1.0)
    metric: Metric = IdentityMetric()
    integrator: str = static(default="mclachlan")
    audit = audited(step_size=0.3, length=2.0)

    def __post_init__(self):
        if self.integrator not in INTEGRATORS:
            raise ValueError(f"MCLMC: integrator is {self.integrator!r}; it must be one of {', '.join(INTEGRATORS)}.")

    def init(self, key, position, target):
        k_begin, k_velocity = jax.random.split(key)
        return begin(k_begin, position, target, aux=uniform(k_velocity, position))

    def step(self, key, state, target):
        k_before, k_draw, k_after = jax.random.split(key, 3)
        h, L, T = (at(v, state.count) for v in (self.step_size, self.length, self.temperature))
        evaluate, feed = evaluator(k_draw, target, state.feed)
        coefficients = INTEGRATORS[self.integrator]
        start = Point(state.position, refreshed(k_before, state.aux, h / 2, L), state.eval)
        end, error = glide(coefficients, evaluate, self.metric, start, h, T)
        velocity = refreshed(k_after, end.velocity, h / 2, L)
        new = state._replace(position=end.position, aux=velocity, eval=end.eval, feed=feed, count=state.count + 1)
        return new, report(new, energy_error=error, n_grad=coefficients.n_grad)

    def law(self) -> Law:
        return Law("order", 2.0, None, "p^(1/T) as ε → 0; bias O(ε²), plus O(ε) from mini-batch noise")
