r"""Hamiltonian Monte Carlo.

    p ~ N(0, T M);  n steps of a palindromic integrator of H = −log p(θ) + ½ pᵀM⁻¹p;  accept with min(1, e^{−ΔH/T}).

The law is p^(1/T), exactly. `jitter` draws each trajectory's step size uniformly from h (1 ± jitter), which breaks
the periodic orbits a fixed length can fall into on a Gaussian. On a mini-batched target one batch is used for the
whole trajectory and the law is no longer exact.

References
----------
Neal (2011), MCMC using Hamiltonian dynamics, §3 and fig. 2.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from langevin.core import tree
from langevin.core.kernel import Kernel, audited, begin, kernel, metropolis, report
from langevin.core.record import nonnegative, positive, static
from langevin.core.schedule import Schedule, at
from langevin.core.target import HasDensity, evaluator
from langevin.core.types import Law
from langevin.dynamics.integrators import INTEGRATORS, Phase, integrate
from langevin.dynamics.mass import IdentityMetric, Metric, kinetic


@kernel
class HMC(Kernel):
    """Trajectories of Hamiltonian dynamics, accepted or rejected.

    step_size: h of the integrator.
    temperature: T; the chain targets p^(1/T).
    jitter: relative width of the random step size.
    metric: M⁻¹: IdentityMetric(), DiagonalMetric(variance) or DenseMetric(covariance).
    n_leapfrog: integrator steps in a trajectory.
    integrator: "verlet", "mclachlan", "omelyan" or "yoshida".
    """

    step_size: Schedule = positive(default=1e-1)
    temperature: Schedule = positive(default=1.0)
    jitter: float = nonnegative(default=0.1)
    metric: Metric = IdentityMetric()
    n_leapfrog: int = static(default=10)
    integrator: str = static(default="verlet")
    requires = HasDensity
    audit = audited(step_size=0.3, n_leapfrog=4)

    def __post_init__(self):
        if self.integrator not in INTEGRATORS:
            raise ValueError(f"HMC: integrator is {self.integrator!r}; it must be one of {', '.join(INTEGRATORS)}.")

    def init(self, key, position, target):
        return begin(key, position, target)

    def step(self, key, state, target):
        k_draw, k_momentum, k_jitter, k_accept = jax.random.split(key, 4)
        T = at(self.temperature, state.count)
        h = at(self.step_size, state.count) * (1 + self.jitter * jax.random.uniform(k_jitter, minval=-1.0))
        evaluate, feed = evaluator(k_draw, target, state.feed)
        p0 = tree.scale(jnp.sqrt(T), self.metric.momentum(k_momentum, state.position))
        coefficients = INTEGRATORS[self.integrator]
        start = Phase(state.position, p0, state.eval)
        end = integrate(coefficients, evaluate, self.metric.velocity, start, h, self.n_leapfrog)
        rise = state.eval.log_density - end.eval.log_density
        error = (rise + kinetic(self.metric, end.momentum) - kinetic(self.metric, p0)) / T
        proposed = state._replace(position=end.position, eval=end.eval)
        new, probability = metropolis(k_accept, error, proposed, state)
        new = new._replace(feed=feed, count=state.count + 1)
        n_grad = coefficients.n_grad * self.n_leapfrog
        return new, report(new, acceptance=probability, energy_error=error, n_grad=n_grad)

    def law(self) -> Law:
        return Law("exact", 0.0, None, "p^(1/T), exactly, on an exact target")
