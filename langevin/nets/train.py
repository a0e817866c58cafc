r"""Train networks with settings that work: Adam with a cosine, gradient clipping, and a running mean of the weights.

`train(key, target, start, steps=…)` climbs a target: a `Loss`, an `EnergyLikelihood`, a `Sum` of several.
`start` are weights with a leading axis of independent runs. It is a run of `Optimize` like any other, so it can be
stored, resumed and visited. What comes back has the mean of the weights of every run and the notes along the way.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from langevin.core.run import run
from langevin.core.types import PyTree, Run, State
from langevin.energy.chains import Note
from langevin.samplers.optimize import Optimize
from langevin.samplers.wrappers.ema import EMA


class Trained(NamedTuple):
    """What training gives; every array has a leading axis of runs.

    weights: the running mean of the weights.
    notes: (run, draw) of `Note`, if the target keeps one, else of the value climbed.
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
    """Climb the target at a rate that falls to the share `last` of it; a note is kept every `thin` steps."""
    if steps < 10 * thin:
        raise ValueError(f"train: {steps} steps with a note every {thin} are too few; take {10 * thin} or more.")
    kernel = EMA(Optimize(climber(rate, steps, clip, last)), decay)
    draws = steps // thin
    chunk = min(draws, 100 if thin > 1 else 500)
    found = run(
        key, kernel, target, start, draws=draws, thin=thin, chunk=chunk, collect=_note, callbacks=callbacks, store=store
    )
    notes = found.kept if store is None else found.kept.load()
    for visit in callbacks:
        if getattr(visit, "stopped", False) and visit.good is not None:
            found = found._replace(states=visit.good)  # a watchdog gave up: what was well is what there is
    return Trained(found.states.memory.mean, notes, found)


def _note(state: State) -> Note | jax.Array:
    return getattr(state.feed, "note", state.eval.log_density)
