r"""Evidence with mini-batches: four ways to score one annealed trajectory (`work`), and two looks at its bias.

The bias of `midpoint` is seen in two ways: a chain annealed from 1 to 0 is biased the other way (`bracket`), and steps
of half the size change it (`halved`).
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from langevin.core.record import replace
from langevin.core.types import Key
from langevin.evidence.ladder import rungs
from langevin.evidence.ready import Control, paced, prepared
from langevin.evidence.types import Evidence
from langevin.evidence.weights import unbiased
from langevin.evidence.work import Scored, run


def midpoint(
    key: Key,
    target: Any,
    base: Any,
    *,
    ladder: Any = 10_000,
    particles: int = 64,
    control: Control = "auto",
    h: float | None = None,
    gamma: float | None = None,
) -> Evidence:
    """log Z by switching work on mini-batches: the mean over chains, consistent, on neither side for sure."""
    k_start, k_run = jax.random.split(key)
    ready, beta = prepared(k_start, target, base, particles, control), rungs(ladder)
    mover = paced(ready, len(beta) - 1, h=h, gamma=gamma)
    return meant(run(k_run, ready.target, base, mover, beta, ready.starts), ready.n_data)


def meant(scored: Scored, n_data: float) -> Evidence:
    """The mean of the scores of chains: estimates of log Z itself."""
    score = scored.score
    n = score.shape[0]
    if not bool(jnp.all(jnp.isfinite(score))):
        raise ValueError(
            f"evidence: {int(jnp.sum(~jnp.isfinite(score)))} of {n} chains left the numbers; take smaller steps (h)."
        )
    stderr = jnp.std(score, ddof=1) / math.sqrt(n) if n > 1 else jnp.inf
    n_data = n_data + float(jnp.sum(scored.n_data.astype(float)))
    return Evidence(jnp.mean(score), stderr, ess=float(n), n_data=n_data, n_grad=n_data, guarantee="consistent")


def stochastic_dais(
    key: Key,
    target: Any,
    base: Any,
    *,
    ladder: Any = 1000,
    particles: int = 64,
    control: Control = "none",
    h: float | None = None,
    gamma: float | None = None,
) -> Evidence:
    """DAIS with mini-batches, as published: a valid bound that warns of how far below log Z noise alone keeps it."""
    k_start, k_run = jax.random.split(key)
    ready, beta = prepared(k_start, target, base, particles, control), rungs(ladder)
    mover = paced(ready, len(beta) - 1, "kinetic", h, gamma)
    scored = run(k_run, ready.target, base, mover, beta, ready.starts)
    warnings.warn(
        f"stochastic DAIS: the noise of mini-batches alone puts this bound about {float(jnp.mean(scored.noise)):.3g} "
        "nats below log Z, and a longer ladder cannot take it away; `midpoint` scores the same chains without it.",
        UserWarning,
        stacklevel=2,
    )
    n_data = ready.n_data + float(jnp.sum(scored.n_data.astype(float)))
    return replace(unbiased(scored.score), n_data=n_data, n_grad=n_data)


def two_batch(key: Key, target: Any, base: Any, *, ladder: Any = 1000, particles: int = 64, control="none", h=None):
    """DAIS with |g|² from two halves of a batch: right on average as K grows, with a variance that grows as well."""
    k_start, k_run = jax.random.split(key)
    ready, beta = prepared(k_start, target, base, particles, control), rungs(ladder)
    mover = paced(ready, len(beta) - 1, "two_batch", h)
    return meant(run(k_run, ready.target, base, mover, beta, ready.starts), ready.n_data)


class Bracket(NamedTuple):
    """Work up the ladder and down again.

    forward: the evidence by chains from the base; their lag puts it low.
    reverse: by chains from where those ended, the other way; their lag puts it high.
    middle: the mean of both, in which lags nearly cancel.
    """

    forward: Evidence
    reverse: Evidence
    middle: Evidence


def bracket(
    key: Key,
    target: Any,
    base: Any,
    *,
    ladder: Any = 10_000,
    particles: int = 64,
    control: Control = "auto",
    h: float | None = None,
    settle: float = 0.125,
) -> Bracket:
    """Midpoint work forward and back; chains first stay at β = 1 for a share `mile_warmup` of the ladder."""
    k_start, k_up, k_stay, k_down = jax.random.split(key, 4)
    ready, beta = prepared(k_start, target, base, particles, control), rungs(ladder)
    mover = paced(ready, len(beta) - 1, h=h)
    up = run(k_up, ready.target, base, mover, beta, ready.starts)
    still = jnp.ones(max(2, int(settle * len(beta))), beta.dtype)
    stayed = run(k_stay, ready.target, base, mover, still, up.position)
    down = run(k_down, ready.target, base, mover, beta[::-1], stayed.position)
    down = down._replace(score=-down.score, n_data=down.n_data + stayed.n_data)
    both = Scored(down.position, 0.5 * (up.score + down.score), down.noise, up.n_data + down.n_data)
    return Bracket(meant(up, ready.n_data), meant(down, 0), meant(both, ready.n_data))


class Halved(NamedTuple):
    """log Z with steps as they are and of half the size.

    whole: with h.
    half: with h/4, steps of half the size on the same ladder.
    change: half less whole: what heat and lag together make of it.
    z: the change over its standard error.
    """

    whole: Evidence
    half: Evidence
    change: Any
    z: Any


def halved(
    key: Key,
    target: Any,
    base: Any,
    *,
    ladder: Any = 10_000,
    particles: int = 64,
    control: Control = "auto",
    h: float | None = None,
) -> Halved:
    """A look at the bias of `midpoint`: a change beyond its error says: a longer ladder, or shorter steps."""
    k_start, k_whole, k_half = jax.random.split(key, 3)
    ready, beta = prepared(k_start, target, base, particles, control), rungs(ladder)
    mover = paced(ready, len(beta) - 1, h=h)
    short = replace(mover, pace=replace(mover.pace, h=mover.pace.h / 4))
    whole = meant(run(k_whole, ready.target, base, mover, beta, ready.starts), ready.n_data)
    half = meant(run(k_half, ready.target, base, short, beta, ready.starts), 0)
    change = half.log_z - whole.log_z
    return Halved(whole, half, change, change / jnp.sqrt(half.stderr**2 + whole.stderr**2))
