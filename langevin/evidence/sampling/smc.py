r"""Sequential Monte Carlo from base to target: N particles, reweighed, resampled and moved at each temperature.

On f_β = q^{1−β} p̃^β, from β to β' > β, with Δ = log p̃ − log q of the particles,

    weigh      log Z ← log Z + log mean e^{(β' − β) Δ_i};
    resample   N/P of them, systematically;
    move       each P times by a kernel that leaves f_{β'} as it is, and keep all N places (waste-free).

Without a ladder β' is where the effective size of the weights falls to a share of N, and without a kernel the particles
set the one that moves them: HMC in their covariance, its step found by trials at each temperature. Either makes log Z
consistent with a bias O(1/N). With a ladder and a kernel given, Z is unbiased. Particles live on islands, which only
share what is adapted; the spread of Z over islands is its standard error.

References
----------
Del Moral, Doucet & Jasra (2006), Sequential Monte Carlo samplers, §3.
Dau & Chopin (2022), Waste-free sequential Monte Carlo, algorithm 2.
Jasra, Stephens, Doucet & Tsagaris (2011), Inference for Lévy-driven stochastic volatility models (β' by ESS).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree

from langevin.core import tree
from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.record import replace, static
from langevin.core.types import PyTree
from langevin.dynamics.mass import DenseMetric, DiagonalMetric
from langevin.evidence.annealing.ladder import to_ladder
from langevin.evidence.annealing.step_sizes import check_kernel, count_grads
from langevin.evidence.base import draw_starts
from langevin.evidence.method import Method, method
from langevin.evidence.types import Evidence, cost
from langevin.evidence.weights import check_weights, effective_size, log_mean_exp, relative_error
from langevin.samplers.hmc import HMC
from langevin.targets.path import Geometric

LARGEST = 200  # coordinates up to which the particles' full covariance is the metric
TRIALS = 8  # of a step size at a temperature
STAGES = 1000


class Particles(NamedTuple):
    """Where they are and what they weigh.

    position: (N, …).
    log_ratio: Δ of each.
    log_z: of each island.
    beta: β.
    kernel: what moves them.
    """

    position: PyTree
    log_ratio: jax.Array
    log_z: np.ndarray
    beta: float
    kernel: Any


@method("smc")
class SMC(Method):
    """Waste-free sequential Monte Carlo: consistent; with a ladder and a kernel given, unbiased-Z.

    ladder: temperatures, or how many; None to choose them on the way.
    kernel: an exact kernel; None for HMC that fits the particles.
    particles: N, in all.
    moves: P, steps of the kernel at a temperature, each of them a particle.
    islands: parts of the particles that are resampled apart.
    share: of N, the effective size of weights at which the next temperature is set.
    """

    ladder: Any = static(default=None)
    kernel: Any = None
    particles: int = static(default=2048)
    moves: int = static(default=8)
    islands: int = static(default=16)
    share: float = 0.5

    def __post_init__(self):
        each = self.islands * self.moves
        if self.islands < 2 or self.particles % each or self.particles < 2 * each:
            raise ValueError(
                f"smc: {self.particles} particles do not make {self.islands} islands with two or more to move "
                f"{self.moves} times each; take a multiple of {2 * each}."
            )
        check_kernel(self.kernel)

    def estimate_evidence(self, key, target, base, draws) -> Evidence:
        kernel, share = self.kernel, float(self.share)
        k_start, key = jax.random.split(key)
        position = draw_starts(k_start, base, target, self.particles)
        ratio = _ratios(target, base, position)
        check_weights(ratio)
        now = Particles(position, ratio, np.zeros(self.islands), 0.0, kernel or _kernel(position))
        fixed = None if self.ladder is None else np.asarray(to_ladder(self.ladder), np.float64)
        n_grad, stage = self.particles, 0
        while now.beta < 1.0:
            key, k_stage = jax.random.split(key)
            beta = _next(now.log_ratio, now.beta, share) if fixed is None else float(fixed[stage + 1])
            now, spent = _stage(k_stage, target, base, now, beta, self.moves, adapt=kernel is None)
            n_grad, stage = n_grad + spent, stage + 1
            if stage >= STAGES:
                raise ValueError(
                    f"smc: β is {now.beta:.3g} after {STAGES} temperatures; take a base nearer to the target."
                )
        each = jnp.asarray(now.log_z)
        log_z, unbiased = log_mean_exp(each), fixed is not None and kernel is not None
        return Evidence(
            log_z,
            relative_error(each),
            lower=log_z if unbiased else -jnp.inf,
            ess=effective_size(each) * self.particles / self.islands,
            guarantee="unbiased-Z" if unbiased else "consistent",
            **cost(n_grad, target),
        )


def _kernel(position) -> HMC:
    """Trajectories are longer in many dimensions: with 4 steps for a network of 97 weights log Z was 22 nats low."""
    d = tree.size(jax.tree.map(lambda u: u[0], position))
    return HMC(0.8, n_leapfrog=min(max(4, d // 3), 32), jitter=0.3)


def _stage(key, target, base, now: Particles, beta: float, moves: int, *, adapt: bool):
    """Weigh, resample, fit the kernel, move."""
    k_resample, k_begin, k_fit, k_move = jax.random.split(key, 4)
    gain = (beta - now.beta) * now.log_ratio
    log_z, chosen = _resample(k_resample, gain, now.position, islands=len(now.log_z), moves=moves)
    there = Geometric(base, target).at(beta)
    kernel, spent = now.kernel, 0
    if adapt:
        kernel = replace(kernel, metric=_metric(now.position, gain))
    states = begin_all(k_begin, kernel, there, chosen)
    n = jax.tree.leaves(chosen)[0].shape[0]
    if adapt:
        kernel, spent = _tune_step(k_fit, kernel, there, states)
    run = advance(k_move, kernel, there, states, length=moves)
    position = jax.tree.map(lambda u: u.reshape(n * moves, *u.shape[2:]), run.kept)
    ratio = _ratios(target, base, position)
    check_weights(ratio)
    n_grad = count_grads(run.info) + spent + n + n * moves
    return Particles(position, ratio, now.log_z + np.asarray(log_z, np.float64), beta, kernel), n_grad


def _tune_step(key, kernel, target, states):
    """The kernel with a step that four fifths of proposals survive, and the gradients it took."""
    spent, low, high = 0, 0.0, np.inf
    for k in jax.random.split(key, TRIALS):
        info = advance(k, kernel, target, states, length=1).info
        rate = float(jnp.mean(info.acceptance))
        spent += count_grads(info)
        if 0.65 <= rate <= 0.93:
            break
        h = float(kernel.step_size)
        if rate < 0.65:
            high = h
            h = 0.5 * h if low == 0.0 else (low * h) ** 0.5
        else:
            low = h
            h = 1.5 * h if high == np.inf else (high * h) ** 0.5
        if h > 2.0:  # beyond, a Gaussian is left
            break
        kernel = replace(kernel, step_size=h)
    return kernel, spent


@jax.jit
def _ratios(target, base, position):
    value = lambda x: target.log_density(x) - base.log_density(x)
    ratio = lax.map(value, position, batch_size=256)
    return jnp.where(ratio == jnp.inf, jnp.nan, ratio)


def _next(log_ratio, beta: float, share: float) -> float:
    """The next β, at most 1."""
    step = float(_bisect(log_ratio, 1.0 - beta, share))
    return 1.0 if step >= 1.0 - beta else beta + step


@jax.jit
def _bisect(log_ratio, most, share):
    enough = lambda step: effective_size(step * log_ratio) >= share * log_ratio.shape[0]

    def halve(_, ends):
        low, high = ends
        middle = 0.5 * (low + high)
        return jnp.where(enough(middle), middle, low), jnp.where(enough(middle), high, middle)

    low, _ = lax.fori_loop(0, 40, halve, (jnp.zeros_like(most), most))
    return jnp.where(enough(most), most, jnp.maximum(low, 1e-12))


@partial(jax.jit, static_argnames=("islands", "moves"))
def _resample(key, gain, position, *, islands, moves):
    """log mean weight of every island, and one in `moves` of its particles by systematic resampling."""
    gain = gain.reshape(islands, -1)
    size, some = gain.shape[1], gain.shape[1] // moves
    weight = jnp.cumsum(jax.nn.softmax(gain, axis=1), axis=1)
    at = (jax.random.uniform(key, (islands, 1)) + jnp.arange(some)[None]) / some
    index = jax.vmap(jnp.searchsorted)(weight, at * weight[:, -1:]).clip(max=size - 1)
    index = (index + size * jnp.arange(islands)[:, None]).reshape(-1)
    return log_mean_exp(gain, axis=1), jax.tree.map(lambda u: u[index], position)


@jax.jit
def _metric(position, gain):
    """The weighted covariance of particles, drawn a little towards its diagonal."""
    flat = jax.vmap(lambda x: ravel_pytree(x)[0])(position)
    weight = jax.nn.softmax(gain)
    apart = flat - (weight @ flat)[None]
    one = jax.tree.map(lambda u: u[0], position)
    d, count = tree.size(one), effective_size(gain)
    variance = jnp.maximum(weight @ apart**2, 1e-12)
    if d > LARGEST:
        return DiagonalMetric(ravel_pytree(one)[1](variance))
    covariance = (apart * weight[:, None]).T @ apart
    kept = count / (count + d)
    return DenseMetric(kept * covariance + (1 - kept) * jnp.diag(variance) + 1e-9 * jnp.diag(variance))
