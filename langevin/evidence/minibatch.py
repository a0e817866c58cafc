r"""Evidence with mini-batches: one annealed trajectory, and four ways to score it.

On q^{1−β} p̃^β, at rung k with a fresh batch b and g_b the gradient of its estimate at β_k,

    x = θ + ½ η∘v;   v̂ = v + η∘g_b(x);   θ ← x + ½ η∘v̂;   v ← γ v̂ + √(1 − γ²) ε,        η a step per coordinate.

    midpoint    Σ_k (β_k − β_{k−1}) [log p̃_b − log q](x_k), the switching work where the gradient was taken anyway.
                Estimates enter linearly, so noise adds no bias and its variance falls as 1/K. What is left is the lag
                of the chain and the heat of noisy steps: O(K^{2c−1} + K^{−2c}) for η ~ K^{−c}. No bound.
    kinetic     log p̃(θ_K) − log q(θ_0) + Σ_k log N(v̂_k)/N(v_{k−1}): DAIS as published. A bound, but every step pays
                ½ η² tr Cov(g_b), the information that the velocity has about the batch: it cannot come near log Z.
    two_batch   the same with |g|² from two halves of a batch. Unbiased for the energy, but its variance grows with K:
                of no use, and here for the table.

`variates` anchored at the mode make g_b nearly exact near it, by first order (`control="mode"`) or by second
("curvature", the choice where the Hessian is small enough to have), or at the chain's own place every `recentre` steps
("svrg"; all data each time). The bias of `midpoint` is seen in two ways: a chain annealed
from 1 to 0 is biased the other way (`bracket`), and steps of half the size change it (`halved`).

References
----------
Zhang, Hsu, Li, Finn & Grosse (2021), Differentiable annealed importance sampling, §4, theorem 2 (kinetic, with noise).
Jarzynski (1997), Nonequilibrium equality for free energy differences, eq. 4 (switching work).
Baker, Fearnhead, Fox & Nemeth (2019), Control variates for stochastic gradient MCMC; Dubey et al. (2016) (SVRG).
"""

from __future__ import annotations

import math
import warnings
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree

from langevin.core import noise, tree
from langevin.core.record import record, replace, static
from langevin.core.types import Key, PyTree
from langevin.evidence.base import began, examples
from langevin.evidence.ladder import rungs
from langevin.evidence.local import Local, local
from langevin.evidence.types import Evidence
from langevin.evidence.weights import added, unbiased
from langevin.targets.tempered import blend
from langevin.targets.variates import Variates, full_sums, variates

Score = Literal["midpoint", "kinetic", "two_batch"]
Control = Literal["auto", "curvature", "mode", "svrg", "none"]
PAIRS = 32  # of batches, to see their noise


@record
class Pace:
    """Steps that fit the curvature of the path: η_j² = h / ((1 − β) Q_j + β L D_j).

    h: the square of a step in units of the shortest scale.
    curvature: L D, a tree like the position.
    base: Q, the same of the base.
    """

    h: Any
    curvature: PyTree
    base: PyTree

    def __call__(self, beta):
        return jax.tree.map(lambda q, d: jnp.sqrt(self.h / ((1 - beta) * q + beta * d)), self.base, self.curvature)


@record
class Mover:
    """How chains move and are scored.

    pace: β → steps, a tree like the position.
    gamma: γ, the share of the velocity that a step keeps.
    score: "midpoint", "kinetic" or "two_batch".
    recentre: steps between two anchors of control variates on the way; 0 for none.
    """

    pace: Any
    gamma: Any = 0.0
    score: Score = static(default="midpoint")
    recentre: int = static(default=0)


class Scored(NamedTuple):
    """Chains at the end of the ladder.

    position: (particle, …).
    score: of each chain.
    noise: ½ Σ η² tr Cov(g_b) of each, estimated from halves of batches; 0 for `midpoint`.
    n_data: examples each has looked at.
    """

    position: PyTree
    score: jax.Array
    noise: jax.Array
    n_data: jax.Array


def annealed(key: Key, target: Any, base: Any, mover: Mover, beta: jax.Array, starts: PyTree) -> Scored:
    """Chains from draws of the base up the ladder (K + 1,), or from draws of the target down it; differentiable."""
    words, wrap = noise.words(jax.random.split(key, jax.tree.leaves(starts)[0].shape[0]))
    one = lambda word, start: _chain(wrap(word), target, base, mover, beta, start)
    return jax.vmap(one)(words, starts)


class Moved(NamedTuple):
    """A chain after a step, and what the step saw.

    position, velocity, feed: where the chain is.
    ratio: the estimate of log p̃ − log q at the midpoint.
    gain: log N(v̂)/N(v), or with |g|² from two halves.
    noise: |η∘ half the difference of two halves' gradients|², whose mean is η² tr Cov(g_b).
    n_data: examples looked at.
    """

    position: PyTree
    velocity: PyTree
    feed: Any
    ratio: Any
    gain: Any
    noise: Any
    n_data: Any


def moved(key: Key, target: Any, base: Any, mover: Mover, beta, theta: PyTree, v: PyTree, feed: Any) -> Moved:
    """One step at β."""
    k_draw, k_refresh = jax.random.split(key)
    eta = mover.pace(beta)
    x = jax.tree.map(lambda u, e, w: u + 0.5 * e * w, theta, eta, v)
    batch, feed = target.draw(k_draw, feed)
    there = base.evaluate((), x)
    value, grad, apart, n_data = _looked(target, batch, x, halves=mover.score != "midpoint")
    kick = tree.mul(eta, jax.tree.map(partial(blend, beta), grad, there.grad))
    off = tree.scale(beta, tree.mul(eta, apart))
    kicked, noisy = tree.add(v, kick), tree.dot(off, off)
    theta = jax.tree.map(lambda u, e, w: u + 0.5 * e * w, x, eta, kicked)
    square = tree.dot(kick, kick) - (noisy if mover.score == "two_batch" else 0.0)
    gain = -tree.dot(kick, v) - 0.5 * square
    spare = jnp.sqrt(jnp.maximum(1 - mover.gamma**2, 0.0))
    v = jax.tree.map(lambda w, z: mover.gamma * w + spare * z, kicked, noise.like(k_refresh, v))
    return Moved(theta, v, feed, value - there.log_density, gain, noisy, n_data)


def _chain(key, target, base, mover, beta, start) -> Scored:
    k_feed, k_start, k_steps = jax.random.split(key, 3)
    words, wrap = noise.words(jax.random.split(k_steps, len(beta) - 1))
    zero = jnp.zeros(())
    carry = start, noise.like(k_start, start), target.start(k_feed), (zero, zero), zero, jnp.zeros((), jnp.int32)

    def step(carry, x):
        theta, v, feed, total, heat, count = carry
        word, before, now = x
        new = moved(wrap(word), target, base, mover, now, theta, v, feed)
        gain = (now - before) * new.ratio if mover.score == "midpoint" else new.gain
        return (*new[:3], added(total, gain), heat + 0.5 * new.noise, count + new.n_data), None

    if mover.recentre:
        carry = _recentred(target, step, carry, (words, beta[:-1], beta[1:]), mover.recentre)
    else:
        carry, _ = lax.scan(step, carry, (words, beta[:-1], beta[1:]))
    theta, _, _, (total, _), heat, count = carry
    if mover.score != "midpoint":
        total = total + target.log_density(theta) - base.log_density(start)
        count = count + examples(target)
    return Scored(theta, total, heat, count)


def _looked(target, batch, x, *, halves: bool):
    """Value, gradient, half the difference of two halves' gradients (its square has the mean tr Cov), and examples."""
    if not halves:
        e = target.evaluate(batch, x)
        return e.log_density, e.grad, tree.zeros_like(e.grad), e.n_data
    one, two = (target.evaluate(part, x) for part in target.parts(batch, 2))
    mean, apart = tree.scale(0.5, tree.add(one.grad, two.grad)), tree.scale(0.5, tree.sub(one.grad, two.grad))
    return 0.5 * (one.log_density + two.log_density), mean, apart, one.n_data + two.n_data


def _recentred(target, step, carry, xs, every):
    """The scan in stretches, each begun by moving the anchor to where the chain is."""
    n = len(xs[1])
    if n % every:
        raise ValueError(f"evidence: a ladder of {n} steps cannot be recentred every {every}; take a divisor of it.")

    def stretch(carry, xs):
        theta, v, feed, total, heat, count = carry
        value, grad = full_sums(target.target, theta)
        feed = feed._replace(anchor=theta, log_likelihood=value, grad=grad)
        return lax.scan(step, (theta, v, feed, total, heat, count + target.target.n), xs)

    return lax.scan(stretch, carry, jax.tree.map(lambda u: u.reshape(n // every, every, *u.shape[1:]), xs))[0]


_run = jax.jit(annealed)


# --- methods ----------------------------------------------------------------------------------------------------------


class Prepared(NamedTuple):
    """What is known before chains start.

    target: with its control variates.
    starts: draws of the base.
    seen: the mode and the curvature there.
    noise: ρ, the variance of a batch's gradient over the curvature, coordinate by coordinate, on average.
    n_data: the examples that it took to know all this.
    """

    target: Any
    starts: PyTree
    seen: Local
    noise: Any
    n_data: int


def prepared(key: Key, target: Any, base: Any, particles: int, control: Control = "auto") -> Prepared:
    """Find the mode, anchor control variates there, and measure what noise they leave."""
    if control not in ("auto", "curvature", "mode", "svrg", "none"):
        raise ValueError(f"evidence: control is {control!r}; it must be 'auto', 'curvature', 'mode', 'svrg' or 'none'.")
    k_start, k_noise = jax.random.split(key)
    starts = began(k_start, base, target, particles)
    inner = target.target if isinstance(target, Variates) else target
    seen = local(inner, base, jax.tree.map(lambda u: u[0], starts))
    n_data = int(seen.n_eval) * examples(inner)
    if control == "auto":
        control = "mode" if seen.hessian is None else "curvature"
    if control == "curvature" and seen.hessian is None:
        raise ValueError(
            "evidence: control is 'curvature', but there are too many coordinates for a Hessian; use 'mode'."
        )
    if control != "none":
        hessian = _likelihood_hessian(inner, seen) if control == "curvature" else None
        target, n_data = variates(inner, seen.mode, hessian=hessian), n_data + examples(inner)
    noisy, looked = _noise(k_noise, target, seen)
    return Prepared(target, starts, seen, float(noisy), n_data + int(looked))


@jax.jit
def _likelihood_hessian(target, seen: Local):
    flat, unravel = ravel_pytree(seen.mode)
    return -seen.hessian - jax.hessian(lambda x: target.prior(unravel(x)))(flat)


@jax.jit
def _noise(key, target, seen: Local):
    """ρ, from pairs of batches at places about as far from the mode as the posterior's; and examples looked at."""

    def pair(word):
        k_place, k_start, k_one, k_two = jax.random.split(wrap(word), 4)
        away = jax.tree.map(lambda z, d: z / jnp.sqrt(d), noise.like(k_place, seen.mode), seen.curvature)
        place, feed = tree.add(seen.mode, away), target.start(k_start)
        one, two = (target.evaluate(target.draw(k, feed)[0], place) for k in (k_one, k_two))
        apart = jax.tree.map(lambda u, v, d: (u - v) ** 2 / (2 * seen.top * d), one.grad, two.grad, seen.curvature)
        return jnp.mean(ravel_pytree(apart)[0]), one.n_data + two.n_data

    words, wrap = noise.words(jax.random.split(key, PAIRS))
    each, looked = lax.map(pair, words)
    return jnp.mean(each), jnp.sum(looked)


def paced(ready: Prepared, K: int, score: Score = "midpoint", h: float | None = None, gamma: float | None = None):
    """The mover for K rungs: h and γ such that lag, heat and the integrator's error are of one size.

    With r = mean D/Q, the lag of β = (k/K)² is about a/(h K), a = 4 d √r, for a Gaussian, the heat d ρ h/8; what noise
    costs `kinetic` is d ρ h K/2, and the variance of `two_batch` d ρ h K. The integrator's error is O(h²). A share γ of
    the velocity kept makes h as good, and as hot, as h (1 + γ)/(1 − γ).
    """
    seen, rho = ready.seen, max(ready.noise, 1e-12)
    flat = lambda x: ravel_pytree(x)[0]
    r, d = float(jnp.mean(flat(seen.curvature) / flat(seen.base))), flat(seen.base).shape[0]
    if score == "midpoint":
        wanted = math.sqrt(32 * math.sqrt(r) / (rho * K))
    elif score == "kinetic":
        wanted = math.sqrt(8 * math.sqrt(r) / rho) / K
    else:
        wanted = (32 * d * r / rho) ** (1 / 3) / K
    most = min(1.0, (1000 / K) ** (1 / 3))
    h = min(wanted, most) if h is None else h
    if gamma is None:
        faster = min(max(wanted / h, 1.0), 19.0)
        gamma = (faster - 1) / (faster + 1)
    return Mover(Pace(h, tree.scale(seen.top, seen.curvature), seen.base), gamma, score)


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
    recentre: int = 100,
) -> Evidence:
    """log Z by switching work on mini-batches: the mean over chains, consistent, on neither side for sure."""
    k_start, k_run = jax.random.split(key)
    ready, beta = prepared(k_start, target, base, particles, control), rungs(ladder)
    mover = replace(paced(ready, len(beta) - 1, h=h, gamma=gamma), recentre=recentre if control == "svrg" else 0)
    return meant(_run(k_run, ready.target, base, mover, beta, ready.starts), ready.n_data)


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
    scored = _run(k_run, ready.target, base, mover, beta, ready.starts)
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
    return meant(_run(k_run, ready.target, base, mover, beta, ready.starts), ready.n_data)


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
    """Midpoint work forward and back; chains first stay at β = 1 for a share `settle` of the ladder."""
    k_start, k_up, k_stay, k_down = jax.random.split(key, 4)
    ready, beta = prepared(k_start, target, base, particles, control), rungs(ladder)
    mover = paced(ready, len(beta) - 1, h=h)
    up = _run(k_up, ready.target, base, mover, beta, ready.starts)
    still = jnp.ones(max(2, int(settle * len(beta))), beta.dtype)
    stayed = _run(k_stay, ready.target, base, mover, still, up.position)
    down = _run(k_down, ready.target, base, mover, beta[::-1], stayed.position)
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
    whole = meant(_run(k_whole, ready.target, base, mover, beta, ready.starts), ready.n_data)
    half = meant(_run(k_half, ready.target, base, short, beta, ready.starts), 0)
    change = half.log_z - whole.log_z
    return Halved(whole, half, change, change / jnp.sqrt(half.stderr**2 + whole.stderr**2))
