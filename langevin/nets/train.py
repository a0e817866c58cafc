r"""Train networks with settings that work: Adam with a cosine, gradient clipping, and a running mean of the weights.

`train(key, target, start, steps=…)` maximises a target: a `Loss`, an `EnergyLikelihood`, a `Sum` of several.
`start` are weights with a leading axis of independent runs. It is a run of `Optimize` like any other, so it can be
stored and resumed, and takes callbacks. It gives the mean of the weights of every run and the notes along the way.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from langevin.core.run import run
from langevin.core.target import HasNote
from langevin.core.types import PyTree, Run, State
from langevin.samplers.optimize import Optimize
from langevin.samplers.wrappers.ema import EMA


class Trained(NamedTuple):
    """What training gives; every array has a leading axis of runs.

    weights: the running mean of the weights.
    notes: (run, draw) of the target's own note, if it keeps one (`HasNote`), else of the value maximised.
    run: all there is: states to go on from, with the buffer of chains in them.
    """

    weights: PyTree
    notes: Any
    run: Run

    def of(self, i: int) -> PyTree:
        """The weights of run i."""
        return jax.tree.map(lambda u: u[i], self.weights)

    @property
    def chains(self) -> jax.Array:
        """(run, chain, …): where the persistent chains stand."""
        return self.run.states.feed.buffer.position


@cache
def climber(rate: float, steps: int, clip: float, last: float = 0.05) -> optax.GradientTransformation:
    """Adam of clipped gradients, its rate falling by a cosine to the share `last` of it.

    The same numbers give the same object: another would compile anew.
    """
    return optax.chain(
        optax.clip_by_global_norm(clip), optax.adam(optax.cosine_decay_schedule(rate, steps, last), 0.9, 0.999)
    )


def starts(build, key, n: int) -> tuple[PyTree, Any]:
    """Weights of n nets, stacked, and one of the nets: build(key) → net."""
    nets = [build(k) for k in jax.random.split(key, n)]
    parts = [eqx.partition(net, eqx.is_inexact_array)[0] for net in nets]
    return jax.tree.map(lambda *u: jnp.stack(u), *parts), nets[0]


def train(
    key,
    target: Any,
    start: PyTree,
    *,
    steps: int,
    rate: float = 5e-3,
    last: float = 0.05,
    clip: float = 1.0,
    decay: float = 0.998,
    thin: int = 10,
    callbacks=(),
    store=None,
) -> Trained:
    """Climb the target at a rate that falls to the share `last` of it.

    steps: 10 · `thin` or more; a note is kept every `thin`.
    """
    if steps < 10 * thin:
        raise ValueError(f"train: {steps} steps with a note every {thin} are too few; take {10 * thin} or more.")
    kernel = EMA(Optimize(climber(rate, steps, clip, last)), decay)
    draws = steps // thin
    chunk = min(draws, 100 if thin > 1 else 500)
    collect = target.note if isinstance(target, HasNote) else log_density_of
    how: dict[str, Any] = dict(thin=thin, chunk=chunk, collect=collect, callbacks=callbacks, store=store)
    found = run(key, kernel, target, start, draws=draws, **how)
    notes = found.kept if store is None else found.kept.load()
    return Trained(found.states.memory.mean, notes, found)


def log_density_of(state: State) -> jax.Array:
    """The value maximised: what is noted of a target that keeps no note of its own."""
    return state.eval.log_density
