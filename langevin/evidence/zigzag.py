r"""Zig-Zag annealing with subsampling: a lower bound of log Z that holds though no step looks at more than a few data.

On the path p_β ∝ π(θ) ∏_i e^{β l_i(θ)}, β_0 = 0 < … < β_K = 1, a particle starts at θ ~ π and for k = 1 … K does work,
then moves by a process that leaves p_{β_k} exactly as it is:

    W ← W + (β_k − β_{k−1}) L̂(θ),      θ ← Zig-Zag at β_k for a time τ,      E L̂(θ) = L(θ) = Σ_i l_i(θ).

With L in place of L̂, E e^W = Z (annealed importance sampling), so E W ≤ log Z. L̂ enters linearly and the motion does
not see it, so its noise changes no mean: E W ≤ log Z stays true ("linear"). L̂ is a control variate at the anchor a,

    L̂ = C(θ) + (n/B) Σ_{i∈b} r_i(θ),      r_i = l_i(θ) − l_i(a) − ∇l_i(a)·δ − ½ δᵀ∇²l_i(a)δ,      δ = θ − a,

C = Σ_i (l_i − r_i) known from L(a), G(a), H(a); `order=1` leaves the second-order terms out of both. (At order 2 a
Gaussian likelihood has r = 0: its sums say all.)

The process. θ moves with velocity v_j = ζ_j s_j, ζ_j = ±1, and ζ_j flips at a rate whose antisymmetric part is
v_j ∂_jU, U = −log p_β. With g_j = ∂_j of −log π − β G(a)·θ, linear in θ, and a datum i of probability q_ij,

    (v_j g_j(θ))_+  +  E_{i~q_j} (−β v_j Δ_ij(θ)/q_ij)_+,      Δ_ij = ∂_j l_i(θ) − ∂_j l_i(a).

The first clock is run exactly and needs no data. The second is thinned: |Δ_ij| ≤ c_ij ‖δ/S‖ and ‖δ/S‖ grows at most at
the speed ‖s/S‖, so β s_j C_j (‖δ/S‖ + t ‖s/S‖), C_j = max_i c_ij/q_ij, bounds it, linear in t, and one datum an event
decides. q_j ∝ c_j ("weighted") makes C_j = Σ_i c_ij, "uniform" n max_i c_ij: many times the events. s_j(β) is the
standard deviation of coordinate j under p_β by the curvature at the anchor, so τ = 1 is one of them. ζ is uniform and
independent of θ under every p_β, so it is kept between rungs and never drawn anew.

"poisson" has E w = Z: with N ~ Poisson(λ) and data i_1 … i_N uniform, λ = B,

    E ∏_{m≤N} (1 + dβ n r_{i_m}(θ)/λ) = e^{dβ (L − C)},     so   w = ∏_k e^{dβ_k C} ∏_m (1 + dβ_k n r_{i_m}/λ).

A negative factor leaves E w = Z but makes w signed, and log of a mean of signed weights has no sign to its error: the
factors are counted, not clamped, and the guarantee is then "consistent". A finer ladder or larger batch removes them.

References
----------
Bierkens, Fearnhead & Roberts (2019), The Zig-Zag process and super-efficient sampling for Bayesian analysis of big
  data, §4 (subsampling, control variates).
Sen, Sachs, Lu & Dunson (2020), Efficient posterior sampling for high-dimensional imbalanced logistic regression
  (data drawn in proportion to their bounds).
Neal (2001), Annealed importance sampling.
Fearnhead, Papaspiliopoulos & Roberts (2008), Particle filters for partially observed diffusions (generalised Poisson
  estimator).
Jacob & Thiery (2015), On nonnegative unbiased estimators (why its sign cannot be had for nothing).
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from langevin.core import noise
from langevin.core.record import record
from langevin.core.types import Key, Scalar
from langevin.evidence import weights
from langevin.evidence.base import checked
from langevin.evidence.factored import TINY, Anchor, Choice, Factored, anchored, ticketed
from langevin.evidence.ladder import rungs
from langevin.evidence.types import Evidence

ROUNDING = 1e-3  # what a thinning probability may exceed one by


@record
class Process:
    """The Zig-Zag process of a factored target, at any β; made by `process(target)`.

    target: the factored target.
    anchor: what is known of the likelihood at the anchor.
    tickets: how data are drawn.
    """

    target: Any
    anchor: Any
    tickets: Any

    def speeds(self, beta) -> jax.Array:
        """s_j(β) for every β given, (K, d): diagonals of (P − β H)⁻¹, P the prior's precision, by one eigh."""
        wide = self.target.base.scale
        values, vectors = jnp.linalg.eigh(-wide[:, None] * self.anchor.hessian * wide[None, :])
        shares = (wide[:, None] * vectors) ** 2
        return jnp.sqrt((1 / (1 + beta[:, None] * jnp.maximum(values, 0.0)[None])) @ shares.T)


class Particle(NamedTuple):
    """Where a particle is."""

    position: jax.Array  # θ
    sign: jax.Array  # ζ
    n_data: Scalar  # examples looked at
    excess: Scalar  # the largest thinning probability met; above one the bound is broken


class Worked(NamedTuple):
    """What annealing leaves, of every particle."""

    particle: Particle
    log_weight: jax.Array  # W, or log |w|
    negative: jax.Array  # factors below zero; w has the sign of their parity


def process(target: Factored, anchor: Anchor | None = None, *, choice: Choice = "weighted") -> Process:
    """The process of a target about an anchor (default: `anchored(target)`), with its tickets."""
    lacking = [name for name in ("factors", "bound", "base") if not hasattr(target, name)]
    if lacking:
        raise TypeError(
            f"zigzag: {type(target).__name__} has no `{lacking[0]}`; Zig-Zag needs a factored target, such as `linear` "
            "or `logistic` of evidence.factored make."
        )
    anchor = anchored(target) if anchor is None else anchor
    return Process(target, anchor, ticketed(target.bound(anchor), choice))


def first(level, rise, e):
    """When the clock of rate (level + rise t)_+ strikes, e ~ Exp(1)."""
    rise = jnp.maximum(rise, TINY)  # a clock at rest strikes too late to matter, not at once
    root = jnp.sqrt(jnp.maximum(level, 0.0) ** 2 + 2 * rise * e)
    return jnp.where(level > 0, 2 * e / (level + root), (root - level) / rise)


def flow(key: Key, process: Process, beta, speed: jax.Array, duration, particle: Particle) -> Particle:
    """Run the process at β for a time `duration` with the speeds s."""
    base, anchor, target = process.target.base, process.anchor, process.target
    d = speed.shape[0]
    precision = base.scale**-2
    heights = jnp.cumsum(speed * process.tickets.limit)
    total, growth = beta * heights[-1], jnp.linalg.norm(speed / anchor.scale)
    words, wrap = noise.words(key)

    def turn(carry):
        words, left, (position, sign, n_data, excess) = carry
        key, k_clock, k_axis, k_datum, k_accept = jax.random.split(wrap(words), 5)
        known = sign * speed * (precision * (position - base.mean) - beta * anchor.grad)
        far = jnp.linalg.norm((position - anchor.position) / anchor.scale)
        level = jnp.append(known, total * far)
        rise = jnp.append(precision * speed**2, total * growth)
        times = first(level, rise, jax.random.exponential(k_clock, (d + 1,), speed.dtype))
        which = jnp.argmin(times)
        t = jnp.minimum(times[which], left)
        struck, position = times[which] < left, position + t * sign * speed

        # a strike of the last clock: one datum of one coordinate decides
        u = jax.random.uniform(k_axis, (), speed.dtype) * heights[-1]
        j = jnp.sum(heights[:-1] <= u)
        i = process.tickets.draw(k_datum, j)
        change = target.factors(i[None], position).grads[0, j] - anchor.factors.grads[i, j]
        ceiling = jnp.maximum(process.tickets.chance[i, j] * process.tickets.limit[j] * (far + t * growth), TINY)
        probability = -sign[j] * change / ceiling
        accept = jax.random.uniform(k_accept, (), speed.dtype) < probability

        looked = struck & (which == d)
        flips = jnp.where(which == d, accept, struck) & struck
        sign = jnp.where(flips & (jnp.arange(d) == jnp.where(which == d, j, which)), -sign, sign)
        excess = jnp.where(looked, jnp.maximum(excess, jnp.abs(probability)), excess)
        left = jnp.where(struck, left - t, 0.0)
        return noise.words(key)[0], left, Particle(position, sign, n_data + looked, excess)

    left = jnp.asarray(duration, speed.dtype)
    return lax.while_loop(lambda carry: carry[1] > 0, turn, (words, left, particle))[2]


def residuals(key: Key, process: Process, position: jax.Array, n: int, order: int) -> jax.Array:
    """n r_i(θ) of some data drawn uniformly with replacement."""
    target, anchor = process.target, process.anchor
    index = jax.random.randint(key, (n,), 0, target.n)
    there = jax.tree.map(lambda u: u[index], anchor.factors)
    r = target.factors(index, position).values - there.values - there.grads @ (position - anchor.position)
    if order == 2:
        r = r - 0.5 * target.bend(index, position, anchor)
    return target.n * r


def expected(process: Process, position: jax.Array, order: int) -> Scalar:
    """C(θ) − L(a)."""
    away = position - process.anchor.position
    value = process.anchor.grad @ away
    return value + 0.5 * away @ process.anchor.hessian @ away if order == 2 else value


def poisson(key: Key, process: Process, position, rise, batch: int, order: int):
    """Σ log |1 + dβ n r/λ| over N ~ Poisson(λ) data, λ = batch; how many factors are negative; N."""
    words, wrap = noise.words(key)

    def more(carry):
        # the arrivals of a unit-rate process before λ, some at a time: N has no largest value
        words, clock, value, negative, n = carry
        key, k_gap, k_datum = jax.random.split(wrap(words), 3)
        times = clock + jnp.cumsum(jax.random.exponential(k_gap, (batch,), position.dtype))
        factor = 1 + rise * residuals(k_datum, process, position, batch, order) / batch
        here = times < batch
        value = value + jnp.sum(jnp.where(here, jnp.log(jnp.abs(factor)), 0.0))
        return noise.words(key)[0], times[-1], value, negative + jnp.sum(here & (factor < 0)), n + jnp.sum(here)

    zero = jnp.zeros((), position.dtype)
    begin = words, zero, zero, jnp.zeros((), int), jnp.zeros((), int)
    return lax.while_loop(lambda carry: carry[1] < batch, more, begin)[2:]


@partial(jax.jit, static_argnames=("weight", "batch", "order"))
def annealed(key: Key, process: Process, beta, duration, start, *, weight="linear", batch=20, order=2) -> Worked:
    """Every particle from its draw of the prior, start (particle, d), up the ladder beta (K + 1,)."""
    particles, length = start.shape[0], beta.shape[0] - 1
    k_sign, k_rungs = jax.random.split(key)
    signs = noise.rademacher(k_sign, start.shape).astype(start.dtype)
    # after the last work there is nothing left to move for
    lasts = jnp.where(jnp.arange(length) < length - 1, duration, 0.0).astype(start.dtype)
    beta = beta.astype(start.dtype)
    over = beta[1:], jnp.diff(beta), process.speeds(beta[1:]), lasts

    def climb(key, position, sign):
        words, wrap = noise.words(jax.random.split(key, length))

        def rung(carry, x):
            particle, value, negative = carry
            word, (beta, rise, speed, last) = x
            k_work, k_flow = jax.random.split(wrap(word))
            known = rise * expected(process, particle.position, order)
            if weight == "poisson":
                work, below, n = poisson(k_work, process, particle.position, rise, batch, order)
            else:
                work = rise * jnp.mean(residuals(k_work, process, particle.position, batch, order))
                below, n = 0, batch
            particle = particle._replace(n_data=particle.n_data + n)
            particle = flow(k_flow, process, beta, speed, last, particle)
            return (particle, value + known + work, negative + below), None

        zero = jnp.zeros((), position.dtype)
        begin = Particle(position, sign, jnp.zeros((), int), zero), zero, jnp.zeros((), int)
        (particle, value, negative), _ = lax.scan(rung, begin, (words, over))
        return Worked(particle, process.anchor.log_likelihood + value, negative)

    return jax.vmap(climb)(jax.random.split(k_rungs, particles), start, signs)


def zigzag(
    key: Key,
    target: Factored,
    *,
    anchor: Anchor | None = None,
    ladder: int | Any = 2000,
    particles: int = 64,
    duration: float = 1.0,
    weight: Literal["linear", "poisson"] = "linear",
    batch: int = 20,
    order: Literal[1, 2] = 2,
    choice: Choice = "weighted",
) -> Evidence:
    """log Z of a factored target: with "linear" the mean of W, a lower bound; with "poisson" log of an unbiased mean.

    ladder: the βs, or how many rungs of (k/K)². particles: independent chains. duration: of each rung's motion, in
    standard deviations a coordinate travels. batch: data in an estimate of L. order: of the control variate.
    """
    _checked(target, particles, duration, weight, batch, order)
    beta, made = rungs(ladder), process(target, anchor, choice=choice)
    k_start, k_climb = jax.random.split(key)
    start = checked(target.base).exact(k_start, particles)
    done = annealed(k_climb, made, beta, duration, start, weight=weight, batch=batch, order=order)
    excess = float(jnp.max(done.particle.excess))
    if excess > 1 + ROUNDING:
        raise ValueError(
            f"zigzag: a datum's gradient went {excess:.3g} times beyond the bound that {type(target).__name__}.bound "
            "gives, so the motion is not exact; give a bound that holds everywhere."
        )
    looked = made.anchor.n_data + int(np.sum(np.asarray(done.particle.n_data), dtype=np.int64))
    spent = dict(n_grad=np.asarray(made.anchor.n_data // target.n), n_data=np.asarray(looked))
    weights.checked(done.log_weight)
    negative = int(np.sum(np.asarray(done.negative), dtype=np.int64))
    if weight == "linear":
        log_z, error = jnp.mean(done.log_weight), jnp.std(done.log_weight, ddof=1) / particles**0.5
        return Evidence(log_z, error, lower=log_z, ess=particles, guarantee="lower", **spent)
    if not negative:
        return weights.unbiased(done.log_weight, **spent)
    warnings.warn(
        f"zigzag: {negative} factors of the Poisson weights are negative, so weights have signs and log_z is no bound; "
        "take a finer ladder, a larger batch or order=2, or weight='linear'.",
        UserWarning,
        stacklevel=2,
    )
    return _signed(done.log_weight, 1 - 2 * (done.negative % 2), spent)


def _signed(log_w, sign, spent) -> Evidence:
    """log of the mean of weights with signs: consistent, and no bound."""
    top = jnp.max(log_w)
    w = sign * jnp.exp(log_w - top)
    mean, n = jnp.mean(w), len(w)
    if not float(mean) > 0:
        raise ValueError(
            "zigzag: the mean of the signed Poisson weights is not positive, and has no logarithm; take a finer "
            "ladder, a larger batch or order=2, or weight='linear'."
        )
    error = jnp.std(w, ddof=1) / (mean * n**0.5)
    ess = jnp.sum(w) ** 2 / jnp.sum(w**2)
    return Evidence(top + jnp.log(mean), error, ess=ess, guarantee="consistent", **spent)


def _checked(target, particles, duration, weight, batch, order):
    wrong = {
        f"weight is {weight!r}; it must be 'linear' or 'poisson'.": weight not in ("linear", "poisson"),
        f"particles is {particles}; it must be 2 or more, for a standard error.": particles < 2,
        f"duration is {duration}; it must be positive and finite.": not 0 < duration < float("inf"),
        f"batch is {batch}; it must be 1 or more.": batch < 1,
        f"order is {order!r}; it must be 1 or 2.": order not in (1, 2),
    }
    for words, found in wrong.items():
        if found:
            raise ValueError(f"zigzag: {words}")
    if order == 2 and hasattr(target, "factors") and not hasattr(target, "bend"):
        raise TypeError(f"zigzag: {type(target).__name__} has no `bend`, which order=2 needs; pass order=1.")
