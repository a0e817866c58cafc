r"""Evidence with mini-batches: three ways to score one annealed trajectory (`trajectory`), and two checks of the bias.

    Midpoint         switching work at midpoints: consistent
    StochasticDAIS   DAIS as published: a bound that noise keeps far below log Z
    TwoBatch         the same with |g|² from two halves of a batch

The bias of `Midpoint` is seen in two ways: a chain annealed from 1 to 0 is biased the other way (`bracket`), and steps
of half the size change it (`halve_steps`).
"""

from __future__ import annotations

import math
import warnings
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from langevin.core.record import record, replace, static
from langevin.core.target import HasBatches
from langevin.core.types import Key
from langevin.evidence.annealing.ladder import to_ladder
from langevin.evidence.method import Method, method
from langevin.evidence.minibatch.preparation import Control, Prepared, choose_steps, prepare
from langevin.evidence.minibatch.trajectory import Mover, Score, Scored, anneal_compiled
from langevin.evidence.types import Evidence
from langevin.evidence.weights import summarize

FAR, FAR_SPREADS = 1e3, 50.0  # nats, and median gaps, from the median score at which a chain has run away


@record
class Annealed(Method):
    """Abstract: chains annealed on mini-batches, and scored.

    ladder: the rungs, or how many.
    particles: chains.
    control: of the noise of gradients: "auto", "curvature", "mode", "svrg" or "none".
    h: the square of a step in units of the shortest scale; None to choose it.
    gamma: γ, the share of the velocity that a step keeps; None to choose it.
    """

    ladder: Any = static(default=1000)
    particles: int = static(default=64)
    control: Control = static(default="none")
    h: float | None = None
    gamma: float | None = None
    requires = HasBatches
    minibatches = "used"
    score: ClassVar[Score] = "midpoint"

    def prepare(self, key: Key, target: Any, base: Any) -> tuple[Prepared, jax.Array, Mover]:
        """What is known before the chains run, the ladder, and how they move."""
        ready, beta = prepare(key, target, base, self.particles, self.control), to_ladder(self.ladder)
        return ready, beta, choose_steps(ready, len(beta) - 1, self.score, self.h, self.gamma)

    def anneal(self, key: Key, target: Any, base: Any) -> tuple[Scored, int]:
        """The scored chains, and the examples that their preparation took."""
        k_start, k_run = jax.random.split(key)
        ready, beta, mover = self.prepare(k_start, target, base)
        return anneal_compiled(k_run, ready.target, base, mover, beta, ready.starts), ready.n_data

    def estimate_evidence(self, key, target, base, draws) -> Evidence:
        return average_scores(*self.anneal(key, target, base))


@method("midpoint")
class Midpoint(Annealed):
    """Switching work on mini-batches, the mean over chains: consistent, on either side of log Z.

    ladder: the rungs, or how many.
    control: of the noise of gradients: "auto", "curvature", "mode", "svrg" or "none".
    The other settings are those of `Annealed`.
    """

    ladder: Any = static(default=10_000)
    control: Control = static(default="auto")


@method("stochastic_dais")
class StochasticDAIS(Annealed):
    """DAIS with mini-batches, as published: unbiased-Z, and a warning of how far noise alone keeps it below log Z.

    Its settings are those of `Annealed`.
    """

    score = "kinetic"

    def estimate_evidence(self, key, target, base, draws) -> Evidence:
        scored, prepared = self.anneal(key, target, base)
        warnings.warn(
            f"stochastic DAIS: the noise of mini-batches alone puts this bound about "
            f"{float(jnp.mean(scored.noise)):.3g} nats below log Z, and a longer ladder cannot remove it; `midpoint` "
            "scores the same chains without it.",
            UserWarning,
            stacklevel=2,
        )
        n_data = prepared + float(jnp.sum(scored.n_data.astype(float)))
        return replace(summarize(scored.score), n_data=n_data, n_grad=n_data)


@method("two_batch")
class TwoBatch(Annealed):
    """DAIS with |g|² from two halves of a batch: consistent, with a variance that grows with the ladder.

    Its settings are those of `Annealed`.
    """

    score = "two_batch"


def average_scores(scored: Scored, n_data: float) -> Evidence:
    """The mean of the scores of chains, each an estimate of log Z."""
    score = scored.score
    n = score.shape[0]
    if not bool(jnp.all(jnp.isfinite(score))):
        bad = int(jnp.sum(~jnp.isfinite(score)))
        raise ValueError(
            f"evidence: the log density became NaN or infinite in {bad} of {n} chains; take smaller steps (h)."
        )
    stderr = jnp.std(score, ddof=1) / math.sqrt(n) if n > 1 else jnp.inf
    if n > 1 and not bool(jnp.isfinite(stderr)):
        raise ValueError(
            f"evidence: the scores of {n} chains reach {float(jnp.min(score)):.3g} and their variance is not finite; "
            "take smaller steps (h)."
        )
    gap = jnp.abs(score - jnp.median(score))
    lost = int(jnp.sum(gap > jnp.maximum(FAR, FAR_SPREADS * jnp.median(gap))))
    if lost:
        warnings.warn(
            f"evidence: the scores of {lost} of {n} chains lie up to {float(jnp.max(gap)):.3g} nats from the median, "
            "so this estimate is worthless; take smaller steps (h).",
            UserWarning,
            stacklevel=2,
        )
    n_data = n_data + float(jnp.sum(scored.n_data.astype(float)))
    return Evidence(jnp.mean(score), stderr, ess=float(n), n_data=n_data, n_grad=n_data, guarantee="consistent")


class Bracket(NamedTuple):
    """Work up the ladder and down again.

    forward: the evidence by chains from the base; their lag puts it low.
    reverse: by chains from where those ended, the other way; their lag puts it high.
    middle: the mean of both, in which lags nearly cancel.
    """

    forward: Evidence
    reverse: Evidence
    middle: Evidence


def bracket(key: Key, target: Any, base: Any, method: Midpoint | None = None, *, settle: float = 0.125) -> Bracket:
    """Midpoint work up the ladder and down again; in between chains stay at β = 1.

    settle: for how long, as a share of the ladder.
    """
    k_start, k_up, k_stay, k_down = jax.random.split(key, 4)
    ready, beta, mover = (method or Midpoint()).prepare(k_start, target, base)
    up = anneal_compiled(k_up, ready.target, base, mover, beta, ready.starts)
    still = jnp.ones(max(2, int(settle * len(beta))), beta.dtype)
    stayed = anneal_compiled(k_stay, ready.target, base, mover, still, up.position)
    down = anneal_compiled(k_down, ready.target, base, mover, beta[::-1], stayed.position)
    down = down._replace(score=-down.score, n_data=down.n_data + stayed.n_data)
    both = Scored(down.position, 0.5 * (up.score + down.score), down.noise, up.n_data + down.n_data)
    return Bracket(average_scores(up, ready.n_data), average_scores(down, 0), average_scores(both, ready.n_data))


class Halved(NamedTuple):
    """log Z with steps as they are and of half the size.

    whole: with h.
    half: with h/4, steps of half the size on the same ladder.
    change: half less whole: the combined effect of heat and lag.
    z: the change over its standard error.
    """

    whole: Evidence
    half: Evidence
    change: Any
    z: Any


def halve_steps(key: Key, target: Any, base: Any, method: Midpoint | None = None) -> Halved:
    """The bias of `Midpoint` by steps of half the size: beyond its error, take a longer ladder or shorter steps."""
    k_start, k_whole, k_half = jax.random.split(key, 3)
    ready, beta, mover = (method or Midpoint()).prepare(k_start, target, base)
    short = replace(mover, pace=replace(mover.pace, h=mover.pace.h / 4))
    run = lambda k, mover: anneal_compiled(k, ready.target, base, mover, beta, ready.starts)
    whole, half = average_scores(run(k_whole, mover), ready.n_data), average_scores(run(k_half, short), 0)
    change = half.log_z - whole.log_z
    return Halved(whole, half, change, change / jnp.sqrt(half.stderr**2 + whole.stderr**2))
