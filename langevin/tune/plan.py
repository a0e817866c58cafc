r"""Plans: warm start, tuning, kernel and lengths as one named choice, from fresh networks to a posterior.

A plan trains every member by Adam on the log posterior (mini-batches, cosine decay), tunes each where it came to rest,
and samples; members are the chains, spread over as many devices as divide their number. `PLANS` has

    mile     MCLMC on all data, in a metric of the stiffest directions (`tune.mile_warmup`): the choice up to some ten
             thousand rows.
    smile    SMILE on mini-batches whose noise is whitened and completed (`tune.whiten`).

`Plan(kernel, batch=…, warmup=…)` without `tune` samples by a kernel as it is; `holding` fixes parts of a plan's kernel.

References
----------
Sommer, Robnik, Nozadze, Seljak & Rügamer (2025), Microcanonical Langevin ensembles (MILE).
Lakshminarayanan, Pritzel & Blundell (2017), Simple and scalable predictive uncertainty estimation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
import optax

from langevin.core import progress, sharding
from langevin.core.advance import chains_of
from langevin.core.begin import begin_all
from langevin.core.fingerprint import fingerprint
from langevin.core.kernel import PerChain
from langevin.core.posterior import Posterior, sample
from langevin.core.record import positive, record, replace, static
from langevin.core.rounds import TUNED, keep
from langevin.core.types import Key, PyTree, State
from langevin.samplers.mclmc import MCLMC
from langevin.samplers.smile import SMILE
from langevin.tune.mile_warmup import mile_warmup
from langevin.tune.warm_start import warm_start
from langevin.tune.whiten import whiten

FIXED = 300  # examples whose gradient costs as much as a step does beside it, for nets of a table's size on a CPU
TUNING = 9_000  # steps of a sampler that take as long as a tuner, roughly


@runtime_checkable
class Timed(Protocol):
    """A tuner that knows how many gradients of how many examples it takes, on n of them."""

    def work(self, n: int) -> tuple[int, int]: ...


@record
class Plan:
    """How to sample a network from fresh starts.

    kernel: how chains move.
    tune: (key, kernel, target, states) → (kernel, states); None leaves the kernel as it is.
    rate: Adam's learning rate at first; it ends at a hundredth of it.
    ascent: steps of Adam.
    ascent_batch: examples in a step of it.
    batch: examples in a step of the sampler; None for all.
    draws: draws of every chain.
    warmup: draws before those, that are not kept.
    thin: steps from one draw to the next.
    """

    kernel: Any
    tune: Callable | None = static(default=None)
    rate: float = positive(default=1e-2)
    ascent: int = static(default=8_000)
    ascent_batch: int = static(default=64)
    batch: int | None = static(default=None)
    draws: int = static(default=100)
    warmup: int = static(default=0)
    thin: int = static(default=8)

    def __call__(
        self, key: Key, target: Any, starts: PyTree, *, callbacks: tuple = (), store: str | Path | None = None
    ) -> Posterior:
        """The posterior of a target with data (`Bayes`) from starts (chain, …).

        store: a folder for all stages; the same call with it goes on in the stage in which it was stopped.
        """
        k_train, k_sample, how = jax.random.clone(key), key, dict(callbacks=callbacks, store=store)
        return self.sampled(k_sample, target, self.trained(k_train, target, starts, **how), **how)

    def trained(
        self,
        key: Key,
        target: Any,
        starts: PyTree,
        *,
        score: Any = None,
        callbacks: tuple = (),
        store: str | Path | None = None,
    ) -> PyTree:
        """The warm start: an ensemble of modes, each where `score` of it was best if there is one.

        One key serves this and `sampled`: each takes its own part of it.
        """
        starts, target = sharding.shared(starts, target)
        small = replace(target, batch=min(self.ascent_batch, target.n), order="epoch")
        how = dict(steps=self.ascent, optimizer=_adam(float(self.rate), self.ascent), score=score)
        how |= dict(chunk=max(self.ascent // 40, 1), callbacks=callbacks, store=_inside(store, "train"))
        with progress.stage("train"):
            return warm_start(jax.random.split(key, 4)[0], small, starts, **how)

    def sampled(
        self, key: Key, target: Any, trained: PyTree, *, callbacks: tuple = (), store: str | Path | None = None
    ) -> Posterior:
        """The posterior from trained positions."""
        _, k_begin, k_tune, k_run = jax.random.split(key, 4)
        trained, target = sharding.shared(trained, target)
        target = self.sampling(target)
        kernel, states = self.kernel, begin_all(k_begin, self.kernel, target, trained)
        if self.tune is not None:
            kernel, states = self._tuned(k_tune, target, states, _inside(store, "tune"))
        how = dict(draws=self.draws, warmup=self.warmup, thin=self.thin, chunk=self.chunk)
        with progress.stage("sample"):
            posterior = sample(k_run, kernel, target, states, callbacks=callbacks, store=_inside(store, "draws"), **how)
        return posterior.loaded()

    def _tuned(self, key: Key, target: Any, states: State, folder: Path | None) -> tuple[Any, State]:
        """Kernel and states after tuning, from the folder where they are there."""
        assert self.tune is not None
        given = (jax.random.clone(key), self.kernel, target, states, self.tune)
        mark = fingerprint(given) if folder is not None else ""
        with progress.stage("tune"), keep(folder, mark) as kept:
            found = kept.load(TUNED, target, states) if kept is not None else None
            if found is None:
                found = self.tune(key, self.kernel, target, states)
                if kept is not None:
                    kept.save(TUNED, *found)
        return found

    @property
    def chunk(self) -> int:
        """Draws between two looks of the host."""
        return max(self.draws // 20, 1)

    def expected(self, n: int) -> dict[str, float]:
        """How long the stages take on n examples, relative to one another, as far as can be told beforehand."""
        cost = lambda steps, batch: steps * (FIXED + min(batch or n, n))
        steps = (self.draws + self.warmup) * self.thin
        work = self.tune.work(n) if isinstance(self.tune, Timed) else (TUNING, self.batch)
        tune = {"tune": float(cost(*work))} if self.tune is not None else {}
        return {"train": float(cost(self.ascent, self.ascent_batch)), **tune, "sample": float(cost(steps, self.batch))}

    def more(self, key: Key, target: Any, posterior: Posterior, draws: int, *, callbacks: tuple = ()) -> Posterior:
        """What `sampled` gave with this key, `draws` draws longer: as if it had not stopped."""
        # over the devices that `sampled` used: on fewer, sums of another order differ in the last bit
        position, target = sharding.shared(posterior.state.position, target)
        posterior = dataclasses.replace(posterior, state=posterior.state._replace(position=position))
        how = dict(thin=self.thin, chunk=self.chunk, callbacks=callbacks)
        return posterior.more(jax.random.split(key, 4)[3], self.sampling(target), draws, **how)

    def sampling(self, target: Any) -> Any:
        """The target as the sampler evaluates it; batches are even, for noise is measured from their halves."""
        return replace(target, batch=None if self.batch is None else min(self.batch, max(target.n // 2 * 2, 1)))


def _inside(store: str | Path | None, stage: str) -> Path | None:
    return None if store is None else Path(store) / stage


@cache
def _adam(rate: float, steps: int) -> optax.GradientTransformation:
    """Built once: another object would compile training anew."""
    return optax.adam(optax.cosine_decay_schedule(rate, steps, alpha=1e-2))


def holding(plan: Plan, **fields: Any) -> Plan:
    """The plan with fields of its kernel as given, from first to last: what tuning finds for them is put back."""
    kernel = replace(plan.kernel, **fields)
    return replace(plan, kernel=kernel, tune=plan.tune and partial(_held, plan.tune, tuple(fields.items())))


def _held(tune: Callable, fields: tuple, key: Key, kernel: Any, target: Any, states: State) -> tuple[Any, State]:
    kernel, states = tune(key, kernel, target, states)
    wide = isinstance(kernel, PerChain)
    number = lambda v: isinstance(v, (int, float, np.number)) and wide
    return replace(kernel, **{k: np.full(chains_of(states), v) if number(v) else v for k, v in fields}), states


PLANS: dict[str, Plan] = {
    "mile": Plan(MCLMC(0.05, length=25.0, integrator="verlet"), mile_warmup),
    "smile": Plan(SMILE(0.05), partial(whiten, damping=1000.0), batch=256, thin=64),
}
