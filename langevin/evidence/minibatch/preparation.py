r"""What is found out before chains run on mini-batches: the mode, control variates, the noise these leave, step sizes.

Control variates anchored at the mode make a batch's gradient nearly exact near it, by first order (`control="mode"`) or
by second ("curvature"), or at the chain's own position now and then ("svrg"). "auto" is the second order where the
Hessian is small enough to have, the first beyond, unless a few chains annealed quickly end where such variates are
noisier than none, as where there are many modes (networks). Then it is "svrg".

References
----------
Baker, Fearnhead, Fox & Nemeth (2019), Control variates for stochastic gradient MCMC; Dubey et al. (2016) (SVRG).
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree

from langevin.core import noise, tree
from langevin.core.target import examples
from langevin.core.types import Key, PyTree
from langevin.evidence.annealing.ladder import to_ladder
from langevin.evidence.base import draw_starts
from langevin.evidence.minibatch.trajectory import Mover, Pace, Score, anneal_compiled
from langevin.evidence.mode import Mode, find_mode
from langevin.targets.control_variates import ControlVariates, control_variates

Control = Literal["auto", "curvature", "mode", "svrg", "none"]
CONTROLS = ("auto", "curvature", "mode", "svrg", "none")
PAIRS = 32  # of batches, to measure their noise
RECENTER = 100  # steps between two anchors of SVRG, at least
SCOUTS, QUICK = 4, 50  # chains that look for other modes, and their rungs


class Prepared(NamedTuple):
    """What is known before chains start.

    target: with its control variates.
    starts: draws of the base.
    mode: the mode and the curvature there.
    noise: ρ, the variance of a batch's gradient over the curvature, coordinate by coordinate, on average.
    recenter: steps between two anchors of SVRG; 0 for those that stay at the mode, or for none.
    n_data: the examples that it took to know all this.
    """

    target: Any
    starts: PyTree
    mode: Mode
    noise: Any
    recenter: int
    n_data: int


def prepare(key: Key, target: Any, base: Any, particles: int, control: Control = "auto") -> Prepared:
    """Find the mode, anchor control variates there, and measure what noise they leave."""
    if control not in CONTROLS:
        raise ValueError(f"evidence: control is {control!r}; it must be one of {', '.join(CONTROLS)}.")
    k_start, k_scout, k_noise = jax.random.split(key, 3)
    starts = draw_starts(k_start, base, target, particles)
    inner = target.target if isinstance(target, ControlVariates) else target
    mode = find_mode(inner, base, jax.tree.map(lambda u: u[0], starts))
    n = examples(inner)
    ready = Prepared(inner, starts, mode, 0.0, 0, int(mode.n_eval) * n)
    if control == "curvature" and mode.hessian is None:
        raise ValueError(
            "evidence: control is 'curvature', but there are too many coordinates for a Hessian; use 'mode'."
        )
    if control != "none":
        second = mode.hessian is not None and control in ("auto", "curvature")
        hessian = _likelihood_hessian(inner, mode) if second else None
        ready = ready._replace(target=control_variates(inner, mode.position, hessian=hessian), n_data=ready.n_data + n)
    recenter = control == "svrg"
    if control == "auto":
        recenter, n_data = _scout(k_scout, inner, base, ready)
        ready = ready._replace(n_data=ready.n_data + n_data)
    if recenter:
        every = max(RECENTER, n // int(_batch_size(inner, mode.position)))
        ready = ready._replace(target=control_variates(inner, mode.position), recenter=every)
    noisy, n_data = _noise(k_noise, ready.target, mode)
    return ready._replace(noise=float(noisy), n_data=ready.n_data + int(n_data))


@jax.jit
def _batch_size(target, position):
    k_start, k_draw = jax.random.split(jax.random.key(0))
    batch, _ = target.draw(k_draw, target.start(k_start))
    return target.evaluate(batch, position).n_data


@jax.jit
def _likelihood_hessian(target, mode: Mode):
    flat, unravel = ravel_pytree(mode.position)
    return -mode.hessian - jax.hessian(lambda x: target.prior(unravel(x)))(flat)


@jax.jit
def _noise(key, target, mode: Mode):
    """ρ at places about as far from the mode as the posterior's, and the examples evaluated."""
    k_places, k_pairs = jax.random.split(key)
    wide = jax.tree.map(lambda m: jnp.broadcast_to(m, (PAIRS, *m.shape)), mode.position)
    away = jax.tree.map(lambda z, d: z / jnp.sqrt(d)[None], noise.like(k_places, wide), mode.curvature)
    return _compare_pairs(k_pairs, target, mode, tree.add(wide, away))


def _compare_pairs(key, target, mode: Mode, places: PyTree):
    """ρ from a pair of batches at every place."""

    def pair(x):
        word, place = x
        k_start, k_one, k_two = jax.random.split(wrap(word), 3)
        feed = target.start(k_start)
        one, two = (target.evaluate(target.draw(k, feed)[0], place) for k in (k_one, k_two))
        apart = jax.tree.map(lambda u, v, d: (u - v) ** 2 / (2 * mode.top * d), one.grad, two.grad, mode.curvature)
        return jnp.mean(ravel_pytree(apart)[0]), one.n_data + two.n_data

    words, wrap = noise.words(jax.random.split(key, jax.tree.leaves(places)[0].shape[0]))
    each, n_data = lax.map(pair, (words, places))
    return jnp.mean(each), jnp.sum(n_data)


def _scout(key, plain, base, ready: Prepared) -> tuple[bool, int]:
    """Whether chains annealed quickly end where variates at the mode are noisier than none; and examples evaluated."""
    k_noise, k_run, k_pairs = jax.random.split(key, 3)
    rough, n_data = _noise(k_noise, plain, ready.mode)
    mover = choose_steps(ready._replace(noise=float(rough)), QUICK)
    some = jax.tree.map(lambda u: u[:SCOUTS], ready.starts)
    ends = anneal_compiled(k_run, plain, base, mover, to_ladder(QUICK), some)
    (without, one), (within, two) = (_measure_at(k_pairs, t, ready.mode, ends.position) for t in (plain, ready.target))
    n_data = n_data + jnp.sum(ends.n_data) + one + two
    return not float(within) < float(without), int(n_data)


@jax.jit
def _measure_at(key, target, mode, ends):
    again = lambda u: jnp.repeat(u, PAIRS // SCOUTS, axis=0)
    return _compare_pairs(jax.random.clone(key), target, mode, jax.tree.map(again, ends))


def choose_steps(
    ready: Prepared, K: int, score: Score = "midpoint", h: float | None = None, gamma: float | None = None
):
    """The mover for K rungs: h and γ such that lag, heat and the integrator's error are of one size.

    With r = mean D/Q, the lag of β = (k/K)² is about a/(h K), a = 4 d √r, for a Gaussian, the heat d ρ h/8; what noise
    costs `kinetic` is d ρ h K/2, and the variance of `two_batch` d ρ h K. The integrator's error is O(h²). A share γ of
    the velocity kept makes h as good, and as hot, as h (1 + γ)/(1 − γ).
    """
    mode, rho = ready.mode, max(ready.noise, 1e-12)
    flat = lambda x: ravel_pytree(x)[0]
    r, d = float(jnp.mean(flat(mode.curvature) / flat(mode.base))), flat(mode.base).shape[0]
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
    return Mover(Pace(h, tree.scale(mode.top, mode.curvature), mode.base), gamma, score, ready.recenter)
