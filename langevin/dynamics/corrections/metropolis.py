r"""A Metropolis test of the step: exact at any step size, for diagonal metrics of the present gradient.

y = θ + hDg + √(2ThD) ξ is accepted with min(1, e^−Δ),

    Δ = (log p(θ) − log p(y))/T + |θ − y − hD'g'|²_{1/D'}/(4Th) − |ξ|²/2 + ½ log det D' − ½ log det D.

References
----------
Roberts & Stramer (2002), Langevin diffusions and Metropolis-Hastings algorithms (position-dependent proposals).
"""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp

from langevin.core import noise, tree
from langevin.core.kernel import metropolis, report
from langevin.core.record import record
from langevin.core.schedule import at
from langevin.core.target import HasDensity
from langevin.core.types import Law
from langevin.dynamics.corrections.base import Correction


@record
class Metropolis(Correction):
    """Accept or reject the step."""

    name: ClassVar[str] = "metropolis"
    own_batch: ClassVar[float] = 0.0
    diagonal: ClassVar[bool] = True
    requires: ClassVar[type] = HasDensity

    def accept_one_batch(self, who, better):
        pass

    def law(self, kernel) -> Law:
        return Law("exact", 0.0, None, "p^(1/T), exactly, on an exact target")

    def step(self, kernel, key, state, target):
        k_eval, k_noise, k_accept = jax.random.split(key, 3)
        h, T = at(kernel.step_size, state.count), at(kernel.temperature, state.count)
        metric, here, s = kernel.metric, kernel.geometry(state), jnp.sqrt(2 * T) * jnp.sqrt(h)
        xi = noise.like(k_noise, state.position)
        move = tree.axpy(h, metric.apply(here, state.eval.grad), tree.scale(s, metric.root(here, xi)))
        position = tree.add(state.position, move)
        evaluation, feed = target.estimate(k_eval, state.feed, position)
        there = metric.geometry((), evaluation.grad, position)
        # the noise that would lead back, up to its sign
        back = tree.scale(1 / s, metric.unroot(there, tree.axpy(h, metric.apply(there, evaluation.grad), move)))
        error = (
            (state.eval.log_density - evaluation.log_density) / T
            + 0.5 * (tree.dot(back, back) - tree.dot(xi, xi))
            + 0.5 * (_log_det(there, position) - _log_det(here, position))
        )
        new, probability = metropolis(k_accept, error, state._replace(position=position, eval=evaluation), state)
        new = new._replace(feed=feed, count=state.count + 1)
        return new, report(new, acceptance=probability, energy_error=error, n_data=evaluation.n_data)


def _log_det(geometry, position):
    """Σ log D over all coordinates, whether D is one number, one a pixel or one a coordinate."""
    parts = jax.tree.map(lambda d, u: jnp.sum(jnp.broadcast_to(jnp.log(d), u.shape)), geometry, position)
    return sum(jax.tree.leaves(parts), jnp.zeros(()))
