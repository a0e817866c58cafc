r"""Plans: warm start, tuning, kernel and lengths as one named choice, from fresh networks to a posterior.

A plan trains every member by Adam on the log posterior (mini-batches, cosine decay), lets each settle or whiten where
it came to rest, and samples; members are the chains, spread over as many devices as divide their number. `PLANS` has

    mile     MCLMC on all data, in a metric of the stiffest directions (`tune.settle`): the choice up to some ten
             thousand rows.
    smile    SMILE on mini-batches whose noise is whitened and completed (`tune.whiten`).

References
----------
Sommer, Robnik, Nozadze, Seljak & Rügamer (2025), Microcanonical Langevin ensembles (MILE).
Lakshminarayanan, Pritzel & Blundell (2017), Simple and scalable predictive uncertainty estimation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import optax

from langevin.core import place
from langevin.core.posterior import Posterior, sample
from langevin.core.record import positive, record, replace, static
from langevin.core.run import begin_all
from langevin.core.types import Key, PyTree
from langevin.samplers.mclmc import MCLMC
from langevin.samplers.smile import SMILE
from langevin.tune.settle import settle
from langevin.tune.warm_start import warm_start
from langevin.tune.whiten import whiten


@record
class Plan:
    """How to sample a network from fresh starts.

    kernel: how chains move.
    tune: (key, kernel, target, states) → (kernel, states).
    rate: Adam's learning rate at first; it ends at a hundredth of it.
    ascent: steps of Adam.
    ascent_batch: examples in a step of it.
    batch: examples in a step of the sampler; None for all.
    draws: draws of every chain.
    thin: steps from one draw to the next.
    """

    kernel: Any
    tune: Callable = static()
    rate: float = positive(default=1e-2)
    ascent: int = static(default=8_000)
    ascent_batch: int = static(default=64)
    batch: int | None = static(default=None)
    draws: int = static(default=100)
    thin: int = static(default=8)

    def __call__(self, key: Key, target: Any, starts: PyTree, *, visits: tuple = ()) -> Posterior:
        """The posterior of a target with data (`Bayes`) from starts (chain, …)."""
        k_ascent, k_begin, k_tune, k_run = jax.random.split(key, 4)
        starts, target = place.shared(starts, target)
        trained = self.trained(k_ascent, target, starts, visits=visits)
        target = replace(target, batch=None if self.batch is None else min(self.batch, target.n))
        states = begin_all(k_begin, self.kernel, target, trained)
        kernel, states = self.tune(k_tune, self.kernel, target, states)
        chunk = max(self.draws // 4, 1)
        return sample(k_run, kernel, target, states, draws=self.draws, thin=self.thin, chunk=chunk, visits=visits)

    def trained(self, key: Key, target: Any, starts: PyTree, *, visits: tuple = ()) -> PyTree:
        """The warm start: an ensemble of modes."""
        small = replace(target, batch=min(self.ascent_batch, target.n), order="epoch")
        optimiser = optax.adam(optax.cosine_decay_schedule(float(self.rate), self.ascent, alpha=1e-2))
        chunk = max(self.ascent // 8, 1)
        return warm_start(key, small, starts, steps=self.ascent, optimiser=optimiser, chunk=chunk, visits=visits)


PLANS = {
    "mile": Plan(MCLMC(0.05, length=25.0, integrator="verlet"), settle),
    "smile": Plan(SMILE(0.05), partial(whiten, damping=1000.0), batch=256, thin=64),
}
