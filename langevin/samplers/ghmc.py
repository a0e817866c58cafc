r"""Generalised Hamiltonian Monte Carlo: one leapfrog step with a momentum that persists, accepted or rejected.

    p ← γ p + √(1 − γ²) ξ,  ξ ~ N(0, T M);     (θ*, p*) = leapfrog(θ, p, h);     Δ = (H(θ*, p*) − H(θ, p))/T;
    (θ, p) ← (θ*, p*) with probability min(1, e^−Δ),   else (θ, −p),            H = −log p(θ) + ½ pᵀM⁻¹p.

The flip on rejection is what keeps the law of (θ, p) exact: p^(1/T) × N(0, T M). A rejection turns the chain around, so
steps should be small enough that it is rare; the momentum then carries the chain over about 1/(1 − γ) steps. γ = 0 is
MALA. On a mini-batched target the acceptance is computed from estimates, and the law is no longer exact.

References
----------
Horowitz (1991), A generalized guided Monte Carlo algorithm.
Sohl-Dickstein & Culpepper (2012), Hamiltonian annealed importance sampling for partition function estimation.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from langevin.core import tree
from langevin.core.kernel import Kernel, audited, begin, kernel, metropolis, report
from langevin.core.record import nonnegative, positive
from langevin.core.schedule import Schedule, at
from langevin.core.target import HasDensity, evaluator
from langevin.core.types import Law
from langevin.dynamics.integrators import INTEGRATORS, Phase, integrate
from langevin.dynamics.mass import IdentityMetric, Metric, kinetic


@kernel
class GHMC(Kernel):
    """One leapfrog step at a time with a momentum that persists, accepted or rejected.

    step_size: h of the leapfrog.
    temperature: T; the chain targets p^(1/T).
    gamma: γ in [0, 1), the share of the momentum that a step keeps.
    metric: M⁻¹: IdentityMetric(), DiagonalMetric(variance) or DenseMetric(covariance).
    """

    step_size: Schedule = positive(default=1e-1)
    temperature: Schedule = positive(default=1.0)
    gamma: float = nonnegative(default=0.9)
    metric: Metric = IdentityMetric()
    requires = HasDensity
    audit = audited(step_size=0.5, gamma=0.8)

    def __post_init__(self):
        if not isinstance(self.gamma, jax.Array) and not self.gamma < 1:
            raise ValueError(f"GHMC: gamma is {self.gamma:.6g}; it must be below 1, or the momentum is never renewed.")

    def init(self, key, position, target):
        k_eval, k_aux = jax.random.split(key)
        T = at(self.temperature, jnp.zeros((), jnp.int32))
        return begin(k_eval, position, target, tree.scale(jnp.sqrt(T), self.metric.momentum(k_aux, position)))

    def step(self, key, state, target):
        k_draw, k_momentum, k_accept = jax.random.split(key, 3)
        h, T = at(self.step_size, state.count), at(self.temperature, state.count)
        evaluate, feed = evaluator(k_draw, target, state.feed)
        fresh = self.metric.momentum(k_momentum, state.position)
        p = tree.axpy(jnp.sqrt(T * (1 - self.gamma**2)), fresh, tree.scale(self.gamma, state.aux))
        start = Phase(state.position, p, state.eval)
        end = integrate(INTEGRATORS["verlet"], evaluate, self.metric.velocity, start, h, 1)
        rise = state.eval.log_density - end.eval.log_density
        error = (rise + kinetic(self.metric, end.momentum) - kinetic(self.metric, p)) / T
        proposed = state._replace(position=end.position, aux=end.momentum, eval=end.eval)
        turned = state._replace(aux=tree.scale(-1.0, p))
        new, probability = metropolis(k_accept, error, proposed, turned)
        new = new._replace(feed=feed, count=state.count + 1)
        return new, report(new, acceptance=probability, energy_error=error)

    def law(self) -> Law:
        return Law("exact", 0.0, None, "p^(1/T), exactly, on an exact target")
