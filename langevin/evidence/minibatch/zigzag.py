r"""Zig-Zag annealing with subsampling: a lower bound of log Z that holds though no step evaluates more than a few data.

On the path p_β ∝ π(θ) ∏_i e^{β l_i(θ)}, β_0 = 0 < … < β_K = 1, a particle starts at θ ~ π and for k = 1 … K does work,
then moves by the Zig-Zag process (`zigzag_process`), whose stationary distribution is p_{β_k} exactly:

    W ← W + (β_k − β_{k−1}) L̂(θ),      θ ← Zig-Zag at β_k for a time τ,      E L̂(θ) = L(θ) = Σ_i l_i(θ).

With L in place of L̂, E e^W = Z (annealed importance sampling), so E W ≤ log Z. L̂ enters linearly and the motion does
not see it, so its noise changes no mean: E W ≤ log Z stays true ("linear"). L̂ is a control variate at the anchor a,

    L̂ = C(θ) + (n/B) Σ_{i∈b} r_i(θ),      r_i = l_i(θ) − l_i(a) − ∇l_i(a)·δ − ½ δᵀ∇²l_i(a)δ,      δ = θ − a,

C = Σ_i (l_i − r_i) known from L(a), G(a), H(a); `order=1` leaves the second-order terms out of both. (At order 2 a
Gaussian likelihood has r = 0: its sums say all.)

"poisson" has E w = Z: with N ~ Poisson(λ) and data i_1 … i_N uniform, λ = B,

    E ∏_{m≤N} (1 + dβ n r_{i_m}(θ)/λ) = e^{dβ (L − C)},     so   w = ∏_k e^{dβ_k C} ∏_m (1 + dβ_k n r_{i_m}/λ).

A negative factor leaves E w = Z but makes w signed, and log of a mean of signed weights has no sign to its error: the
factors are counted, not clamped, and the guarantee is then "consistent". A finer ladder or larger batch removes them.

References
----------
Bierkens, Fearnhead & Roberts (2019), The Zig-Zag process and super-efficient sampling for Bayesian analysis of big
  data, §4 (subsampling, control variates).
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
from langevin.core.record import static
from langevin.core.types import Key, Scalar
from langevin.evidence.annealing.ladder import to_ladder
from langevin.evidence.base import check_base
from langevin.evidence.method import Method, method
from langevin.evidence.minibatch.factored import Choice, Curved
from langevin.evidence.minibatch.zigzag_process import Particle, Process, build_process, flow
from langevin.evidence.types import Evidence
from langevin.evidence.weights import check_weights, summarize

ROUNDING = 1e-3  # what a thinning probability may exceed one by


class Annealed(NamedTuple):
    """Every particle at the end of the ladder."""

    particle: Particle
    log_weight: jax.Array  # W, or log |w|
    negative: jax.Array  # factors below zero; w has the sign of their parity


def draw_residuals(key: Key, process: Process, position: jax.Array, n: int, order: int) -> jax.Array:
    """n r_i(θ) of some data drawn uniformly with replacement."""
    target, anchor = process.target, process.anchor
    index = jax.random.randint(key, (n,), 0, target.n)
    there = jax.tree.map(lambda u: u[index], anchor.factors)
    r = target.factors(index, position).values - there.values - there.grads @ (position - anchor.position)
    if order == 2:
        r = r - 0.5 * target.bend(index, position, anchor)
    return target.n * r


def known_part(process: Process, position: jax.Array, order: int) -> Scalar:
    """C(θ) − L(a)."""
    away = position - process.anchor.position
    value = process.anchor.grad @ away
    return value + 0.5 * away @ process.anchor.hessian @ away if order == 2 else value


def poisson_work(key: Key, process: Process, position, rise, batch: int, order: int):
    """Σ log |1 + dβ n r/λ| over N ~ Poisson(λ) data, λ = batch; how many factors are negative; N."""
    words, wrap = noise.words(key)

    def more(carry):
        # the arrivals of a unit-rate process before λ, some at a time: N has no largest value
        words, clock, value, negative, n = carry
        key, k_gap, k_datum = jax.random.split(wrap(words), 3)
        times = clock + jnp.cumsum(jax.random.exponential(k_gap, (batch,), position.dtype))
        factor = 1 + rise * draw_residuals(k_datum, process, position, batch, order) / batch
        here = times < batch
        value = value + jnp.sum(jnp.where(here, jnp.log(jnp.abs(factor)), 0.0))
        return noise.words(key)[0], times[-1], value, negative + jnp.sum(here & (factor < 0)), n + jnp.sum(here)

    zero = jnp.zeros((), position.dtype)
    begin = words, zero, zero, jnp.zeros((), int), jnp.zeros((), int)
    return lax.while_loop(lambda carry: carry[1] < batch, more, begin)[2:]


@partial(jax.jit, static_argnames=("weight", "batch", "order"))
def anneal(key: Key, process: Process, beta, duration, start, *, weight="linear", batch=20, order=2) -> Annealed:
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
            known = rise * known_part(process, particle.position, order)
            if weight == "poisson":
                work, below, n = poisson_work(k_work, process, particle.position, rise, batch, order)
            else:
                work = rise * jnp.mean(draw_residuals(k_work, process, particle.position, batch, order))
                below, n = 0, batch
            particle = particle._replace(n_data=particle.n_data + n)
            particle = flow(k_flow, process, beta, speed, last, particle)
            return (particle, value + known + work, negative + below), None

        zero = jnp.zeros((), position.dtype)
        begin = Particle(position, sign, jnp.zeros((), int), zero), zero, jnp.zeros((), int)
        (particle, value, negative), _ = lax.scan(rung, begin, (words, over))
        return Annealed(particle, process.anchor.log_likelihood + value, negative)

    return jax.vmap(climb)(jax.random.split(k_rungs, particles), start, signs)


@method("zigzag")
class ZigZag(Method):
    """Zig-Zag annealing of a factored target from its prior; the base is not used.

    anchor: of the control variates; None for the mode.
    ladder: the rungs, or how many.
    particles: independent chains.
    duration: of the motion at a rung, in standard deviations that a coordinate travels.
    weight: "linear" for the mean of W, a lower bound, or "poisson" for the log of an unbiased mean.
    batch: data in an estimate of L.
    order: of the control variate, 1 or 2.
    choice: how data are drawn, "weighted" or "uniform".
    """

    anchor: Any = None
    ladder: Any = static(default=2000)
    particles: int = static(default=64)
    duration: float = 1.0
    weight: Literal["linear", "poisson"] = static(default="linear")
    batch: int = static(default=20)
    order: Literal[1, 2] = static(default=2)
    choice: Choice = static(default="weighted")
    minibatches = "ignored"
    needs_base = False

    def __post_init__(self):
        wrong = {
            f"weight is {self.weight!r}; it must be 'linear' or 'poisson'.": self.weight not in ("linear", "poisson"),
            f"particles is {self.particles}; it must be 2 or more, for a standard error.": self.particles < 2,
            f"duration is {self.duration}; it must be positive and finite.": not 0 < self.duration < float("inf"),
            f"batch is {self.batch}; it must be 1 or more.": self.batch < 1,
            f"order is {self.order!r}; it must be 1 or 2.": self.order not in (1, 2),
        }
        for words, found in wrong.items():
            if found:
                raise ValueError(f"zigzag: {words}")

    def estimate_evidence(self, key, target, base, draws) -> Evidence:
        process = build_process(target, self.anchor, choice=self.choice)
        if self.order == 2 and not isinstance(target, Curved):
            raise TypeError(f"zigzag: {type(target).__name__} has no `bend`, which order=2 needs; pass order=1.")
        k_start, k_climb = jax.random.split(key)
        start = check_base(target.base).exact(k_start, self.particles)
        settings = dict(weight=self.weight, batch=self.batch, order=self.order)
        done = anneal(k_climb, process, to_ladder(self.ladder), self.duration, start, **settings)
        excess = float(jnp.max(done.particle.excess))
        if excess > 1 + ROUNDING:
            raise ValueError(
                f"zigzag: a datum's gradient went {excess:.3g} times beyond the bound that "
                f"{type(target).__name__}.bound gives, so the motion is not exact; give a bound that holds everywhere."
            )
        return _summarize(done, self.weight, process.anchor.n_data, target.n)


def _summarize(done: Annealed, weight: str, n_anchor: int, n: int) -> Evidence:
    """The evidence of annealed particles, after an anchor that took so many examples of n."""
    total = n_anchor + int(np.sum(np.asarray(done.particle.n_data), dtype=np.int64))
    spent = dict(n_grad=np.asarray(n_anchor // n), n_data=np.asarray(total))
    check_weights(done.log_weight)
    particles, negative = len(done.log_weight), int(np.sum(np.asarray(done.negative), dtype=np.int64))
    if weight == "linear":
        log_z, error = jnp.mean(done.log_weight), jnp.std(done.log_weight, ddof=1) / particles**0.5
        return Evidence(log_z, error, lower=log_z, ess=particles, guarantee="lower", **spent)
    if not negative:
        return summarize(done.log_weight, **spent)
    warnings.warn(
        f"zigzag: {negative} factors of the Poisson weights are negative, so weights have signs and log_z is no bound; "
        "take a finer ladder, a larger batch or order=2, or weight='linear'.",
        UserWarning,
        stacklevel=2,
    )
    return _average_signed(done.log_weight, 1 - 2 * (done.negative % 2), spent)


def _average_signed(log_w, sign, spent) -> Evidence:
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
