r"""T-MALA: Metropolis-adjusted Langevin with a drift of bounded length.

    D(x) = δ g/max(δ, |g|),      x* = x + h M⁻¹ D(x) + √(2Th) M^−½ ξ,      g = ∇log p,

accepted with min(1, e^−Δ). With ε = √(2h) and p = √(T M) ξ it is a step of leapfrog whose force is D,

    p½ = p + (ε/2) D(x),      x* = x + ε M⁻¹ p½,      p* = p½ + (ε/2) D(x*),

and −p* is the momentum that leads back (the force need not be a gradient for that), so

    Δ = [log p(x) − log p(x*) + ½|p*|²_{M⁻¹} − ½|p|²_{M⁻¹}] / T.

The law is p^(1/T), exactly; where the gradient is short it is MALA, and in light tails it stays geometrically ergodic
where MALA does not. Atchadé adapts h to an acceptance of 0.574 and M⁻¹ to the covariance as the chain runs: here
`dual_averaging(acceptance=0.574)` and `window` do so before it does.

References
----------
Atchadé (2006), An adaptive version for the Metropolis adjusted Langevin algorithm with a truncated drift.
Roberts & Tweedie (1996), Exponential convergence of Langevin distributions (MALTA).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from langevin.core import tree
from langevin.core.kernel import Kernel, audited, begin, kernel, metropolis, report
from langevin.core.record import positive
from langevin.core.schedule import Schedule, at
from langevin.core.target import HasDensity
from langevin.core.types import Law
from langevin.dynamics.mass import IdentityMetric, Metric, kinetic
from langevin.dynamics.metrics.truncated import Truncated


@kernel
class TMALA(Kernel):
    """MALA with a drift cut at a length; for targets whose gradient grows faster than their distance.

    step_size: h, as in SGLD and MALA.
    temperature: T; the chain targets p^(1/T).
    bound: δ, the longest drift before h.
    metric: M⁻¹: IdentityMetric(), DiagonalMetric(variance) or DenseMetric(covariance).
    """

    step_size: Schedule = positive(default=1e-2)
    temperature: Schedule = positive(default=1.0)
    bound: float = positive(default=1000.0)
    metric: Metric = IdentityMetric()
    requires = HasDensity
    audit = audited(step_size=0.1, bound=2.0)

    def init(self, key, position, target):
        return begin(key, position, target)

    def cut(self, grad):
        """D: the gradient, no longer than δ."""
        short = Truncated(self.bound)
        return short.apply(short.geometry((), grad, grad), grad)

    def step(self, key, state, target):
        k_eval, k_momentum, k_accept = jax.random.split(key, 3)
        h, T = at(self.step_size, state.count), at(self.temperature, state.count)
        eps = jnp.sqrt(2 * h)
        p = tree.scale(jnp.sqrt(T), self.metric.momentum(k_momentum, state.position))
        half = tree.axpy(0.5 * eps, self.cut(state.eval.grad), p)
        position = tree.axpy(eps, self.metric.velocity(half), state.position)
        evaluation, feed = target.estimate(k_eval, state.feed, position)
        back = tree.axpy(0.5 * eps, self.cut(evaluation.grad), half)
        rise = state.eval.log_density - evaluation.log_density
        error = (rise + kinetic(self.metric, back) - kinetic(self.metric, p)) / T
        new, probability = metropolis(k_accept, error, state._replace(position=position, eval=evaluation), state)
        new = new._replace(feed=feed, count=state.count + 1)
        return new, report(new, acceptance=probability, energy_error=error)

    def law(self) -> Law:
        return Law("exact", 0.0, None, "p^(1/T), exactly, on an exact target")
