"""The samplers that `smile-uci` compares, each with what it may spend."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from langevin.baselines.published_smile import PublishedSMILE, Quantiles
from langevin.core.begin import begin_all
from langevin.core.kernel import PerChain, spread
from langevin.core.posterior import Posterior, sample
from langevin.core.record import replace
from langevin.core.types import Key, PyTree
from langevin.samplers.mclmc import MCLMC
from langevin.samplers.psgld import PSGLD
from langevin.samplers.sghmc import SGHMC
from langevin.samplers.sgld import SGLD
from langevin.samplers.smile import SMILE
from langevin.samplers.wrappers.cyclical import Cyclical
from langevin.tune.mclmc import tune_mclmc
from langevin.tune.metric_floor import metric_floor
from langevin.tune.mile_warmup import mile_warmup
from langevin.tune.whiten import whiten

KEPT = 6  # one part in six of the steps is kept


class Work(NamedTuple):
    """What a method is given: target, starts (chain, …), a step size a chain, gradients to spend, draws to keep."""

    target: Any
    starts: PyTree
    steps: jax.Array
    gradients: int
    draws: int

    @property
    def chains(self) -> int:
        return len(self.steps)


class Method(NamedTuple):
    """go: (key, work) → the posterior and the examples looked at by a chain while tuning; grid: of step sizes."""

    go: Callable[[Key, Work], tuple[Posterior, float]]
    grid: tuple[float, ...] = (0.0,)


def methods() -> dict[str, Method]:
    """In the order of the table; some warn of their law when they are made."""
    published = lambda scaled: partial(_published, PublishedSMILE(tuner=Quantiles(scaled=scaled)))
    return {
        "mile": Method(_mile),
        "smile, published": Method(published(False), (3e-4, 1e-3, 3e-3, 1e-2)),
        "psmile, published": Method(published(True), (3e-4, 1e-3, 3e-3, 1e-2)),
        "ours": Method(_ours),
        "ours, all data": Method(_all_data),
        "sgld": Method(partial(_stochastic, SGLD(1e-5), 1.0), (1e-6, 4e-6, 1.6e-5, 6.4e-5)),
        "sghmc": Method(partial(_stochastic, SGHMC(1e-3, friction=10.0), 1.0), (3e-4, 1e-3, 3e-3, 1e-2)),
        "csghmc": Method(partial(_cyclical, SGHMC(1e-3, friction=10.0)), (3e-4, 1e-3, 3e-3, 1e-2)),
        "psgld, no Γ": Method(partial(_floored, PSGLD(1e-3, correction="none"), 1.0), (1e-4, 4e-4, 1.6e-3, 6.4e-3)),
        "psgld, Γ": Method(partial(_floored, PSGLD(1e-3), 1.25), (1e-4, 4e-4, 1.6e-3, 6.4e-3)),
    }


# --- methods ----------------------------------------------------------------------------------------------------


def _drawn(key: Key, kernel: Any, work: Work, states: Any, steps: int, *, warm: int = KEPT - 1):
    """`steps` steps, of which the last 1/(warm + 1) give the draws, and the examples that those before them looked at.

    Every step of a kernel costs as many.
    """
    thin = max(steps // ((warm + 1) * work.draws), 1)
    posterior = sample(
        key, kernel, work.target, states,
        draws=work.draws, warmup=warm * work.draws, thin=thin, chunk=work.draws,
    )  # fmt: skip
    return posterior, warm * posterior.provenance.n_data / work.chains


def _stochastic(kernel, cost: float, key: Key, work: Work):
    """One chain a step size; cost: gradients on a batch that a step takes."""
    each = PerChain(replace(spread(kernel, work.chains), step_size=work.steps))
    return _drawn(key, each, work, work.starts, int(work.gradients / cost))


def _published(kernel, key: Key, work: Work):
    return _stochastic(kernel, 2.0, key, work._replace(target=replace(work.target, order="epoch")))


def _cyclical(kernel, key: Key, work: Work):
    """Four cycles over all steps, each with a stretch of draws at its end."""
    thin = max(work.gradients // (4 * work.draws), 1)
    period = thin * work.draws
    each = spread(Cyclical(kernel, period=period, exploration=0.8), work.chains)
    each = PerChain(replace(each, step_size=work.steps))
    return sample(key, each, work.target, work.starts, draws=4 * work.draws, thin=thin, chunk=work.draws), 0.0


def _floored(kernel, cost: float, key: Key, work: Work):
    """Floors are found at the middle step size, once for all."""
    k_init, k_floor, k_run = jax.random.split(key, 3)
    probe = replace(kernel, step_size=float(jnp.median(work.steps)) / 4)
    states = begin_all(k_init, probe, work.target, work.starts)
    tuned, _ = metric_floor(k_floor, probe, work.target, states, share=0.5)
    posterior, before = _stochastic(tuned, cost, k_run, work)
    return posterior, before + 421 * cost * work.target.batch


def _mile(key: Key, work: Work):
    """MILE as published: full batches, McLachlan's integrator, ε and L by the energy error, as many steps as SMILE."""
    k_init, k_tune, k_run = jax.random.split(key, 3)
    work = work._replace(target=replace(work.target, batch=None))
    steps = work.gradients // 2
    warm = steps - steps // KEPT
    d = sum(u[0].size for u in jax.tree.leaves(work.starts))
    kernel = MCLMC(0.01, length=max(float(np.sqrt(d)), 15.0))
    states = begin_all(k_init, kernel, work.target, work.starts)
    tune = partial(tune_mclmc, variance=(0.5, 0.1), trust=1.5, memory=100, share=(0.8, 0.1, 0.1), per_chain=True)
    kernel, states = tune(k_tune, kernel, work.target, states, steps=warm)
    posterior, _ = _drawn(k_run, kernel, work, states, steps // KEPT, warm=0)
    return posterior, 2.0 * warm * work.target.n


def _passes(work: Work) -> float:
    """Over all data, that ours may take."""
    return work.gradients * min(work.target.batch / work.target.n, 0.25)


def _ours(key: Key, work: Work):
    """Half the gradients to tune (a step of which takes 1.25), half to run, a third of those kept."""
    k_init, k_tune, k_run = jax.random.split(key, 3)
    half = 0.5 * _passes(work) * work.target.n / work.target.batch
    states = begin_all(k_init, SMILE(0.05), work.target, work.starts)
    kernel, states = whiten(k_tune, SMILE(0.05), work.target, states, steps=int(half / 1.25), damping=1000.0)
    posterior, before = _drawn(k_run, kernel, work, states, int(half), warm=2)
    return posterior, before + half * work.target.batch


def _all_data(key: Key, work: Work):
    """Full gradients, three fifths of them to settle and two fifths to run, half of those kept."""
    k_init, k_tune, k_run = jax.random.split(key, 3)
    passes, work = _passes(work), work._replace(target=replace(work.target, batch=None))
    kernel: Any = MCLMC(0.05, length=25.0, integrator="verlet")
    states = begin_all(k_init, kernel, work.target, work.starts)
    rounds = int(np.clip(0.6 * passes / 200, 4, 40))
    steps = int(passes - rounds * 256 / work.target.n)  # a metric takes the gradients of 256 examples
    each = int(0.6 * steps / rounds)
    kernel, states = mile_warmup(k_tune, kernel, work.target, states, rounds=rounds, steps=each)
    posterior, before = _drawn(k_run, kernel, work, states, steps - rounds * each, warm=1)
    return posterior, before + rounds * (each * work.target.n + 256.0)


# --- protocol ---------------------------------------------------------------------------------------------------
