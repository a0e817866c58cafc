r"""What chains on mini-batches need to know first: the mode, control variates, the noise these leave, and a pace.

`variates` anchored at the mode make a batch's gradient nearly exact near it, by first order (`control="mode"`) or by
second ("curvature"), or at the chain's own place now and then ("svrg"). "auto" is the second order where the Hessian is
small enough to have, the first beyond, unless a few chains annealed quickly end where such variates have more noise
than none: where there are many modes, as for networks. Then it is "svrg".

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
from langevin.core.types import Key, PyTree
from langevin.evidence.base import began, examples
from langevin.evidence.ladder import rungs
from langevin.evidence.local import Local, local
from langevin.evidence.work import Mover, Pace, Score, run
from langevin.targets.control_variates import ControlVariates, control_variates

Control = Literal["auto", "curvature", "mode", "svrg", "none"]
CONTROLS = ("auto", "curvature", "mode", "svrg", "none")
PAIRS = 32  # of batches, to see their noise
RECENTRE = 100  # steps between two anchors of SVRG, at least
SCOUTS, QUICK = 4, 50  # chains that look for other modes, and their rungs


class Prepared(NamedTuple):
    """What is known before chains start.

    target: with its control variates.
    starts: draws of the base.
    seen: the mode and the curvature there.
    noise: ρ, the variance of a batch's gradient over the curvature, coordinate by coordinate, on average.
    recentre: steps between two anchors of SVRG; 0 for those that stay at the mode, or for none.
    n_data: the examples that it took to know all this.
    """

    target: Any
    starts: PyTree
    seen: Local
    noise: Any
    recentre: int
    n_data: int


def prepared(key: Key, target: Any, base: Any, particles: int, control: Control = "auto") -> Prepared:
    """Find the mode, anchor control variates there, and measure what noise they leave."""
    if control not in CONTROLS:
        raise ValueError(f"evidence: control is {control!r}; it must be one of {', '.join(CONTROLS)}.")
    k_start, k_scout, k_noise = jax.random.split(key, 3)
    starts = began(k_start, base, target, particles)
    inner = target.target if isinstance(target, ControlVariates) else target
    seen = local(inner, base, jax.tree.map(lambda u: u[0], starts))
    n = examples(inner)
    ready = Prepared(inner, starts, seen, 0.0, 0, int(seen.n_eval) * n)
    if control == "curvature" and seen.hessian is None:
        raise ValueError(
            "evidence: control is 'curvature', but there are too many coordinates for a Hessian; use 'mode'."
        )
    if control != "none":
        second = seen.hessian is not None and control in ("auto", "curvature")
        hessian = _likelihood_hessian(inner, seen) if second else None
        ready = ready._replace(target=control_variates(inner, seen.mode, hessian=hessian), n_data=ready.n_data + n)
    recentre = control == "svrg"
    if control == "auto":
        recentre, looked = _scouted(k_scout, inner, base, ready)
        ready = ready._replace(n_data=ready.n_data + looked)
    if recentre:
        every = max(RECENTRE, n // (getattr(inner, "batch", None) or n))
        ready = ready._replace(target=control_variates(inner, seen.mode), recentre=every)
    noisy, looked = _noise(k_noise, ready.target, seen)
    return ready._replace(noise=float(noisy), n_data=ready.n_data + int(looked))


@jax.jit
def _likelihood_hessian(target, seen: Local):
    flat, unravel = ravel_pytree(seen.mode)
    return -seen.hessian - jax.hessian(lambda x: target.prior(unravel(x)))(flat)


@jax.jit
def _noise(key, target, seen: Local):
    """ρ at places about as far from the mode as the posterior's, and the examples looked at."""
    k_places, k_look = jax.random.split(key)
    wide = jax.tree.map(lambda m: jnp.broadcast_to(m, (PAIRS, *m.shape)), seen.mode)
    away = jax.tree.map(lambda z, d: z / jnp.sqrt(d)[None], noise.like(k_places, wide), seen.curvature)
    return _apart(k_look, target, seen, tree.add(wide, away))


def _apart(key, target, seen: Local, places: PyTree):
    """ρ from a pair of batches at every place."""

    def pair(x):
        word, place = x
        k_start, k_one, k_two = jax.random.split(wrap(word), 3)
        feed = target.start(k_start)
        one, two = (target.evaluate(target.draw(k, feed)[0], place) for k in (k_one, k_two))
        apart = jax.tree.map(lambda u, v, d: (u - v) ** 2 / (2 * seen.top * d), one.grad, two.grad, seen.curvature)
        return jnp.mean(ravel_pytree(apart)[0]), one.n_data + two.n_data

    words, wrap = noise.words(jax.random.split(key, jax.tree.leaves(places)[0].shape[0]))
    each, looked = lax.map(pair, (words, places))
    return jnp.mean(each), jnp.sum(looked)


def _scouted(key, plain, base, ready: Prepared) -> tuple[bool, int]:
    """Whether chains annealed quickly end where variates at the mode are noisier than none; and examples looked at."""
    k_noise, k_run, k_look = jax.random.split(key, 3)
    rough, looked = _noise(k_noise, plain, ready.seen)
    mover = paced(ready._replace(noise=float(rough)), QUICK)
    some = jax.tree.map(lambda u: u[:SCOUTS], ready.starts)
    ends = run(k_run, plain, base, mover, rungs(QUICK), some)
    (without, one), (within, two) = (_looked(k_look, t, ready.seen, ends.position) for t in (plain, ready.target))
    n_data = looked + jnp.sum(ends.n_data) + one + two
    return not float(within) < float(without), int(n_data)


@jax.jit
def _looked(key, target, seen, ends):
    again = lambda u: jnp.repeat(u, PAIRS // SCOUTS, axis=0)
    return _apart(jax.random.clone(key), target, seen, jax.tree.map(again, ends))


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
    return Mover(Pace(h, tree.scale(seen.top, seen.curvature), seen.base), gamma, score, ready.recentre)
