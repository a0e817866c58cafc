r"""Metropolis-adjusted Langevin algorithm.

    θ* = θ + h M⁻¹ g(θ) + √(2 T h) M^−½ ξ,      accept with min(1, e^−Δ),
    Δ = (log p(θ) − log p(θ*))/T + (|θ − θ* − h M⁻¹ g(θ*)|²_M − |θ* − θ − h M⁻¹ g(θ)|²_M) / (4 T h).

It is computed as HMC with one leapfrog step of size ε = √(2h), to which it is identical: p = √(T M) ξ, Δ = ΔH/T.
The law is p^(1/T), exactly. On a mini-batched target the acceptance is computed from estimates, and the law is no
longer exact.

References
----------
Roberts & Tweedie (1996), Exponential convergence of Langevin distributions, §1.4.
Neal (2011), MCMC using Hamiltonian dynamics, §5.2.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from langevin.core import tree
from langevin.core.kernel import Kernel, audited, begin, kernel, metropolis, report
from langevin.core.record import positive
from langevin.core.schedule import Schedule, at
from langevin.core.target import HasDensity, evaluator
from langevin.core.types import Law
from langevin.dynamics.integrators import INTEGRATORS, Phase, integrate
from langevin.dynamics.mass import IdentityMetric, Metric, kinetic


@kernel
class MALA(Kernel):
    """Langevin proposals, accepted or rejected.

    step_size: h, as in SGLD; the leapfrog step is √(2h).
    temperature: T; the chain targets p^(1/T).
    metric: M⁻¹: IdentityMetric(), DiagonalMetric(variance) or DenseMetric(covariance).
    """

    step_size: Schedule = positive(default=1e-2)
    temperature: Schedule = positive(default=1.0)
    metric: Metric = IdentityMetric()
    requires = HasDensity
    audit = audited(step_size=0.1)

    def init(self, key, position, target):
        return begin(key, position, target)

    def step(self, key, state, target):
        k_draw, k_momentum, k_accept = jax.random.split(key, 3)
        h, T = at(self.step_size, state.count), at(self.temperature, state.count)
        evaluate, feed = evaluator(k_draw, target, state.feed)
        p0 = tree.scale(jnp.sqrt(T), self.metric.momentum(k_momentum, state.position))
        start = Phase(state.position, p0, state.eval)
        end = integrate(INTEGRATORS["verlet"], evaluate, self.metric.velocity, start, jnp.sqrt(2 * h), 1)
        rise = state.eval.log_density - end.eval.log_density
        error = (rise + kinetic(self.metric, end.momentum) - kinetic(self.metric, p0)) / T
        proposed = state._replace(position=end.position, eval=end.eval)
        new, probability = metropolis(k_accept, error, proposed, state)
        new = new._replace(feed=feed, count=state.count + 1)
        return new, report(new, acceptance=probability, energy_error=error)

    def law(self) -> Law:
        return Law("exact", 0.0, None, "p^(1/T), exactly, on an exact target")
