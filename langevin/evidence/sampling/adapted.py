r"""Importance sampling from a proposal learned on the way: rounds of draws, tempered until they know the target.

Round t draws n_t points of q_t (q_0 is the base q), and all points so far have, for f_β = q^{1−β} p̃^β, the weights

    w_β(x) = f_β(x) / Σ_s n_s q_s(x).

β is the largest whose weights have an effective size of a share of N, and q_{t+1} is the mixture fitted to them. Once
β = 1, longer rounds go on while they improve the effective size. A part of the mixture is then fitted to weights at
β = COLD > 1, where narrow places, such as a funnel's neck, weigh more: they are seen before they are missed. At last
fresh draws of the best q give Z = E p̃/q: unbiased, for they had no part in choosing q. A value of p̃ is all that a draw
costs.

The standard error is that of the weights, and where their largest look like the tail of a generalised Pareto law with
k > ½, what that tail's mean would add to Z is in it. Where dimension or shape forbid such a proposal, sequential Monte
Carlo does the rest, from the best mixture there was, or from the base.

References
----------
Cornuet, Marin, Mira & Robert (2012), Adaptive multiple importance sampling, algorithm 1 (weights of all rounds).
Papaioannou, Geyer & Straub (2019), Improved cross entropy-based importance sampling (tempering by effective size).
Vehtari, Simpson, Gelman, Yao & Gabry (2024), Pareto smoothed importance sampling (k).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree

from langevin.core import progress, tree
from langevin.core.record import replace, static
from langevin.core.types import Key
from langevin.evidence.base import draw, draw_starts, log_ratios
from langevin.evidence.method import Method, method
from langevin.evidence.sampling.mixture import Components, Mixture, fit
from langevin.evidence.sampling.smc import SMC
from langevin.evidence.types import Evidence, cost
from langevin.evidence.weights import fit_pareto, summarize

LARGEST = 40  # coordinates beyond which no mixture is tried
COMPONENTS = 64  # of a fit, at most
COLD, COOLED = 1.5, 0.3  # the β of a part of the mixture, once β = 1, and that part
ROUNDS, REFINED, LONGER = 60, 10, 3  # in all; at β = 1; and their draws over those of others
BLOCK = 1024  # points evaluated together
USEFUL = 0.03  # share of effective draws below which the rest is left to `SMC`


class Learned(NamedTuple):
    """A proposal, the share of its draws that is effective, and the values of the target it took."""

    law: Any
    part: float
    n_eval: int


class Points(NamedTuple):
    """Draws of all rounds: x (n, d), log q, log p̃ − log q, and log Σ_s n_s q_s."""

    x: np.ndarray
    own: np.ndarray
    ratio: np.ndarray
    mixed: np.ndarray

    def log_weight(self, beta: float) -> np.ndarray:
        return self.own + beta * self.ratio - self.mixed


@method("adapted")
class Adapted(Method):
    """Importance sampling from a mixture fitted to earlier draws: unbiased-Z; where none fits, SMC: consistent.

    particles: N, draws of a round; None for 1,000 and 100 for every coordinate.
    draws: of the best proposal, that make the estimate; None for 10 N.
    share: of N, the effective size of weights at which β is set.
    """

    particles: int | None = static(default=None)
    draws: int | None = static(default=None)
    share: float = 0.5

    def estimate_evidence(self, key, target, base, draws) -> Evidence:
        d = tree.size(jax.tree.map(lambda u: u[0], base.exact(jax.random.key(0), 1)))
        k_learn, k_last = jax.random.split(key)
        if d > LARGEST:
            return SMC().estimate_evidence(k_last, target, base, None)
        particles = self.particles or 1000 + 100 * d
        count = self.draws or 10 * particles
        best = learn_proposal(k_learn, target, base, particles, float(self.share))
        if best.part < USEFUL:
            found = SMC().estimate_evidence(k_last, target, best.law, None)
            return replace(found, **cost(found.n_grad + best.n_eval, target))
        log_w = log_ratios(target, best.law, draw(k_last, best.law, count))
        found = summarize(log_w, **cost(count + best.n_eval, target))
        k, rise = fit_pareto(np.asarray(log_w, np.float64))
        return replace(found, stderr=np.hypot(found.stderr, rise)) if k > 0.5 else found


def learn_proposal(key: Key, target: Any, base: Any, particles: int, share: float) -> Learned:
    """Rounds of draws until the target is known."""
    laws, sizes, beta, late, known, n_eval = [base], [], 0.0, 0, False, 0
    best, points = Learned(base, 0.0, 0), None
    for t, k in enumerate(jax.random.split(key, ROUNDS)):
        progress.tell(t, ROUNDS)
        sizes.append(particles * (LONGER if beta == 1.0 else 1))
        n_eval += sizes[-1]
        position = draw_starts(k, base, target, sizes[-1]) if t == 0 else draw(k, laws[-1], sizes[-1])
        new, newest = _evaluate(target, laws, sizes, position)
        if beta == 1.0:
            part = _effective_size(new.own + new.ratio - newest) / sizes[-1]
            late = 0 if part > 1.1 * best.part else late + 1
            best = Learned(laws[-1], part, 0) if part > best.part else best
            if (known and (late > 1 or best.part > 0.8)) or sizes.count(sizes[-1]) == REFINED:
                break
        points = new if points is None else _join(points, new, laws[-1], sizes[-1], position)
        beta = _hottest(points, beta, share * particles)
        known = _effective_size(points.log_weight(COLD)) >= share * particles
        laws.append(_fit(base, points, beta, position, laws[-1], seed=t))
    return best._replace(law=best.law if best.part else laws[-1], n_eval=n_eval)


def _evaluate(target, laws, sizes, position) -> tuple[Points, np.ndarray]:
    """What all laws say of new draws, and what the newest does."""
    like = jax.tree.map(lambda u: u[0], position)
    x = np.asarray(_flat(position))
    value = _log_density(target, like, x)
    each = [_log_density(law, like, x) for law in laws]
    mixed = np.logaddexp.reduce([u + np.log(n) for u, n in zip(each, sizes, strict=True)])
    ratio = np.where(np.isfinite(value), value, -np.inf) - each[0]
    return Points(x.astype(np.float64), each[0], ratio, mixed), each[-1]


def _join(points: Points, new: Points, law, n: int, position) -> Points:
    """All points, after n of them were drawn from `law`."""
    like = jax.tree.map(lambda u: u[0], position)
    mixed = np.logaddexp(points.mixed, _log_density(law, like, points.x) + np.log(n))
    return Points(*(np.concatenate(both) for both in zip(points._replace(mixed=mixed), new, strict=True)))


def _fit(base, points: Points, beta: float, position, before, seed: int) -> Mixture:
    """The mixture for f_β, in arrays of one size, so that one program serves all rounds."""
    K = int(np.sum(np.isfinite(before.log_share))) if isinstance(before, Mixture) else 2
    sizes = {max(1, min(n, COMPONENTS)) for n in (K // 4, K // 2, K, 2 * K)}
    found = fit(points.x, points.log_weight(beta), sizes, seed)
    if beta == 1.0:
        cold = fit(points.x, points.log_weight(COLD), sizes, seed)
        log_share = np.concatenate([found.log_share + np.log(1 - COOLED), cold.log_share + np.log(COOLED)])
        found = Components(log_share, *(np.concatenate(both) for both in zip(found[1:], cold[1:], strict=True)))
    K, d = found.mean.shape
    log_share = np.full(2 * COMPONENTS, -np.inf)
    mean, root = np.zeros((len(log_share), d)), np.broadcast_to(np.eye(d), (len(log_share), d, d)).copy()
    log_share[:K], mean[:K], root[:K] = found
    dtype = jax.tree.leaves(position)[0].dtype
    return Mixture(base, *(jnp.asarray(u, dtype) for u in (log_share, mean, root, np.linalg.inv(root))))


def _log_density(law, like, x: np.ndarray) -> np.ndarray:
    """log density of a law at flat points, in blocks of one size."""
    rows = []
    for i in range(0, len(x), BLOCK):
        block = np.resize(x[i : i + BLOCK], (BLOCK, x.shape[1]))
        rows.append(np.asarray(_values(law, like, jnp.asarray(block, jnp.result_type(float))))[: len(x) - i])
    return np.concatenate(rows).astype(np.float64)


@jax.jit
def _values(law, like, x):
    unravel = ravel_pytree(like)[1]
    return lax.map(lambda u: law.log_density(unravel(u)), x, batch_size=256)


@jax.jit
def _flat(position):
    return jax.vmap(lambda p: ravel_pytree(p)[0])(position)


def _effective_size(log_w: np.ndarray) -> float:
    w = np.exp(log_w - log_w.max())
    return float(w.sum() ** 2 / np.sum(w**2))


def _hottest(points: Points, beta: float, enough: float) -> float:
    """The largest β whose weights have that effective size, not below where it was."""
    if _effective_size(points.log_weight(1.0)) >= enough:
        return 1.0
    low, high = beta, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _effective_size(points.log_weight(middle)) >= enough else (low, middle)
    return low
