r"""Positions to start chains from: an ascent from every start, stopped early on a held-out score.

Each chain maximises the target by an Optax optimizer; after every chunk `score` (a held-out log likelihood, larger is
better) is evaluated and each chain keeps its best position. The ascent ends when no chain has improved for
`patience` chunks. The result is a deep ensemble, the default start of every network sampler here.

References
----------
Lakshminarayanan, Pritzel & Blundell (2017), Simple and scalable predictive uncertainty estimation, alg. 1.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from langevin.core import sharding
from langevin.core.arrays import flatten, unflatten
from langevin.core.record import as_record, record, static
from langevin.core.run import run
from langevin.core.types import Key, Progress, PyTree, State
from langevin.samplers.optimize import Optimize

ADAMW = optax.adamw(1e-3, weight_decay=0.0)


def nothing(state: State) -> tuple:
    """Keep nothing of an ascent."""
    return ()


@record
class HeldOut:
    """The log likelihood of data held out, `block` examples at a time.

    likelihood: (position, data) → one number an example.
    data: a tree of arrays.
    block: examples.
    """

    likelihood: Any
    data: Any
    block: int = static(default=500)

    def __call__(self, position):
        one = lambda data: self.likelihood(position, jax.tree.map(lambda u: u[None], data))[0]
        return jnp.sum(lax.map(one, self.data, batch_size=self.block))


class Best:
    """A callback that holds every chain's best position and stops when none improves."""

    def __init__(self, score: Callable[[PyTree], jax.Array] | None, patience: int):
        self.score, self.patience = score, patience
        self.positions: PyTree = None
        self.values: np.ndarray | None = None
        self.stale, self.done = 0, 0

    def __call__(self, progress: Progress) -> Progress:
        states, self.done = progress.states, progress.done
        if self.score is None:
            self.positions = states.position
            return progress
        values = np.asarray(_scores(as_record(self.score), states.position))
        values = np.where(np.isfinite(values), values, -np.inf)
        if self.values is None:
            self.positions, self.values = states.position, values
        else:
            better = values > self.values
            self.stale = 0 if better.any() else self.stale + 1
            mask = jnp.asarray(better)
            pick = lambda new, old: jnp.where(mask.reshape(-1, *([1] * (new.ndim - 1))), new, old)
            self.positions = jax.tree.map(pick, states.position, self.positions)
            self.values = np.maximum(values, self.values)
        return progress._replace(stop=progress.stop or self.stale >= self.patience)

    def remember(self) -> dict:
        return dict(positions=flatten(self.positions), values=self.values, stale=self.stale, done=self.done)

    def restore(self, memory: dict, states: State) -> None:
        self.positions = sharding.beside(unflatten(memory["positions"], states.position), states)
        self.values, self.stale, self.done = memory["values"], memory["stale"], memory["done"]


@jax.jit
def _scores(score, positions):
    return jax.vmap(score)(positions)


def warm_start(
    key: Key,
    target: Any,
    positions: PyTree,
    *,
    steps: int = 5000,
    optimizer: optax.GradientTransformation = ADAMW,
    score: Callable[[PyTree], jax.Array] | None = None,
    patience: int = 10,
    chunk: int = 100,
    callbacks: tuple = (),
    store: str | Path | None = None,
) -> PyTree:
    """Positions (chain, …) after an ascent of at most `steps` steps from each start.

    store: a folder; the same call with the same folder goes on where it was stopped.
    """
    best = Best(score, patience)
    out = run(
        key,
        Optimize(optimizer),
        target,
        positions,
        draws=steps,
        chunk=chunk,
        collect=nothing,
        callbacks=(best, *callbacks),
        store=store,
    )
    if out.interrupted:
        raise KeyboardInterrupt("warm_start: interrupted; nothing was sampled.")
    return best.positions
