r"""One annealed trajectory on mini-batches, and three ways to score it.

On q^{1−β} p̃^β, at rung k with a fresh batch b and g_b the gradient of its estimate at β_k,

    x = θ + ½ η∘v;   v̂ = v + η∘g_b(x);   θ ← x + ½ η∘v̂;   v ← γ v̂ + √(1 − γ²) ε,        η a step per coordinate.

    midpoint    Σ_k (β_k − β_{k−1}) [log p̃_b − log q](x_k), the switching work where the gradient was taken anyway.
                Estimates enter linearly, so noise adds no bias and its variance falls as 1/K. What is left is the lag
                of the chain and the heat of noisy steps: O(K^{2c−1} + K^{−2c}) for η ~ K^{−c}. No bound.
    kinetic     log p̃(θ_K) − log q(θ_0) + Σ_k log N(v̂_k)/N(v_{k−1}): DAIS as published. A bound, but every step pays
                ½ η² tr Cov(g_b), the information that the velocity has about the batch: it cannot come near log Z.
    two_batch   the same with |g|² from two halves of a batch. Unbiased for the energy, but its variance grows with K:
                of no use, and here for the table.

Control variates whose anchor is the chain's own place every so many steps (SVRG) are moved here; all data each time.

References
----------
Zhang, Hsu, Li, Finn & Grosse (2021), Differentiable annealed importance sampling, §4, theorem 2 (kinetic, with noise).
Jarzynski (1997), Nonequilibrium equality for free energy differences, eq. 4 (switching work).
Dubey et al. (2016), Variance reduction in stochastic gradient Langevin dynamics, algorithm 2 (SVRG).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from langevin.core import noise, tree
from langevin.core.record import record, static
from langevin.core.target import examples
from langevin.core.types import Key, PyTree
from langevin.evidence.weights import add
from langevin.targets.control_variates import full_sums
from langevin.targets.tempered import blend

Score = Literal["midpoint", "kinetic", "two_batch"]


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
    recenter: steps between two anchors of control variates on the way; 0 for those that stay.
    """

    pace: Any
    gamma: Any = 0.0
    score: Score = static(default="midpoint")
    recenter: int = static(default=0)


class Scored(NamedTuple):
    """Chains at the end of the ladder.

    position: (particle, …).
    score: of each chain.
    noise: ½ Σ η² tr Cov(g_b) of each, estimated from halves of batches; 0 for `midpoint`.
    n_data: examples each has evaluated.
    """

    position: PyTree
    score: jax.Array
    noise: jax.Array
    n_data: jax.Array


def anneal(key: Key, target: Any, base: Any, mover: Mover, beta: jax.Array, starts: PyTree) -> Scored:
    """Chains from draws of the base up the ladder (K + 1,), or from draws of the target down it; differentiable."""
    words, wrap = noise.words(jax.random.split(key, jax.tree.leaves(starts)[0].shape[0]))
    one = lambda word, start: _chain(wrap(word), target, base, mover, beta, start)
    return jax.vmap(one)(words, starts)


class Step(NamedTuple):
    """A chain after a step, and what the step saw.

    position, velocity, feed: where the chain is.
    ratio: the estimate of log p̃ − log q at the midpoint.
    gain: log N(v̂)/N(v), or with |g|² from two halves.
    noise: |η∘ half the difference of two halves' gradients|², whose mean is η² tr Cov(g_b).
    n_data: examples evaluated.
    """

    position: PyTree
    velocity: PyTree
    feed: Any
    ratio: Any
    gain: Any
    noise: Any
    n_data: Any


def move(key: Key, target: Any, base: Any, mover: Mover, beta, i, theta: PyTree, v: PyTree, feed: Any) -> Step:
    """Step i, at β."""
    k_draw, k_refresh = jax.random.split(key)
    feed, whole = _recenter(target, mover.recenter, i, theta, feed)
    eta = mover.pace(beta)
    x = jax.tree.map(lambda u, e, w: u + 0.5 * e * w, theta, eta, v)
    batch, feed = target.draw(k_draw, feed)
    there = base.evaluate((), x)
    value, grad, apart, n_data = _estimate(target, batch, x, halves=mover.score != "midpoint")
    kick = tree.mul(eta, jax.tree.map(partial(blend, beta), grad, there.grad))
    off = tree.scale(beta, tree.mul(eta, apart))
    kicked, noisy = tree.add(v, kick), tree.dot(off, off)
    theta = jax.tree.map(lambda u, e, w: u + 0.5 * e * w, x, eta, kicked)
    square = tree.dot(kick, kick) - (noisy if mover.score == "two_batch" else 0.0)
    gain = -tree.dot(kick, v) - 0.5 * square
    spare = jnp.sqrt(jnp.maximum(1 - mover.gamma**2, 0.0))
    v = jax.tree.map(lambda w, z: mover.gamma * w + spare * z, kicked, noise.like(k_refresh, v))
    return Step(theta, v, feed, value - there.log_density, gain, noisy, n_data + whole)


def _chain(key, target, base, mover, beta, start) -> Scored:
    k_feed, k_start, k_steps = jax.random.split(key, 3)
    words, wrap = noise.words(jax.random.split(k_steps, len(beta) - 1))
    zero = jnp.zeros(())
    carry = start, noise.like(k_start, start), target.start(k_feed), (zero, zero), zero, jnp.zeros((), jnp.int32)

    def step(carry, x):
        theta, v, feed, total, heat, count = carry
        i, word, before, now = x
        new = move(wrap(word), target, base, mover, now, i, theta, v, feed)
        gain = (now - before) * new.ratio if mover.score == "midpoint" else new.gain
        return (*new[:3], add(total, gain), heat + 0.5 * new.noise, count + new.n_data), None

    carry, _ = lax.scan(step, carry, (jnp.arange(len(words)), words, beta[:-1], beta[1:]))
    theta, _, _, (total, _), heat, count = carry
    if mover.score != "midpoint":
        total = total + target.log_density(theta) - base.log_density(start)
        count = count + examples(target)
    return Scored(theta, total, heat, count)


def _estimate(target, batch, x, *, halves: bool):
    """Value, gradient, half the difference of two halves' gradients (its square has the mean tr Cov), and examples."""
    if not halves:
        e = target.evaluate(batch, x)
        return e.log_density, e.grad, tree.zeros_like(e.grad), e.n_data
    one, two = (target.evaluate(part, x) for part in target.parts(batch, 2))
    mean, apart = tree.scale(0.5, tree.add(one.grad, two.grad)), tree.scale(0.5, tree.sub(one.grad, two.grad))
    return 0.5 * (one.log_density + two.log_density), mean, apart, one.n_data + two.n_data


def _recenter(target, every: int, i, theta, feed):
    """The feed with its anchor where the chain is, at every so many steps, and the examples that it took."""
    if not every:
        return feed, jnp.zeros((), jnp.int32)

    def recenter():
        value, grad = full_sums(target.target, theta)
        return feed._replace(anchor=theta, log_likelihood=value, grad=grad), jnp.asarray(target.target.n, jnp.int32)

    return lax.cond(i % every == 0, recenter, lambda: (feed, jnp.zeros((), jnp.int32)))


anneal_compiled = jax.jit(anneal)
