r"""How a kernel does on one trial: draws, their bias with its error, and its limit as h → 0.

Chains start at exact draws of the law the kernel claims and run until the quickest tenth of the coordinates has
forgotten its start several times over. What moves slower is as exact as the start was, and says nothing of the kernel:
only latents whose correlation with the start has fallen below ½ at the end are judged. A coordinate of the position
that moved less than 3 % of its standard deviation is counted as one that did not move. With weights w (self-normalised;
log_weight −inf is not collected) a statistic f is estimated by R = Σ_c A_c / Σ_c B_c, A_c = Σ w f and B_c = Σ w over
the draws of chain c (of a group of chains, where they move together), with the standard error √Σ(A_c − R B_c)² / Σ B_c.

The bias at step h is b(h) = b₀ + c h^p + …; from h and h/2

    b₀ ≈ (2^p b(h/2) − b(h)) / (2^p − 1)      (Richardson),

which vanishes if the law claimed is the limit and p its order. Where it does not, the same is asked at h/2 and h/4:
what a higher order left behind has then shrunk by 4, what a wrong limit left has stayed. Draws are taken at equal
times.

References
----------
Talay & Tubaro (1990), Expansion of the global error for numerical schemes solving stochastic differential equations.
Owen (2013), Monte Carlo theory, methods and examples, §9.2 (self-normalised weights and their error).
"""

from __future__ import annotations

import math
import warnings
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np

from langevin.audit.subjects import Foreign
from langevin.audit.trials import N_BINS, Budget, Expected, Trial, histogram, statistics
from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.kernel import Wrapper, replace
from langevin.core.record import is_record
from langevin.core.schedule import Scaled

FAR = 1e3  # a standardised coordinate beyond this has left
FORGET = 6.0  # relaxation times of burn-in
FORGOTTEN = 0.5  # correlation with the start up to which a latent is judged
UNMOVED = 1e-3  # 1 − correlation with the start of a coordinate that did not move: 3 % of its standard deviation
LIMIT = 5.0  # of |z|
DOUBT = 3.5  # |z| of a bias that is clear at h and no smaller at h/2
SHRINK = 0.35  # a residue that falls below this share when h is halved is of higher order


class Measured(NamedTuple):
    """What one run says: statistics with errors, histogram with errors, and how the run went."""

    mean: np.ndarray
    stderr: np.ndarray
    bins: np.ndarray
    bins_stderr: np.ndarray
    last: np.ndarray  # the last positions of the chains that lived, (n, d)
    diverged: int
    chains: int
    n_grad: float  # of a step
    turns: int  # chunks of burn-in, and as many of draws
    rate: float  # relaxation times in a chunk, of the quickest coordinates
    first: int  # chunks after which that was seen
    judged: np.ndarray  # (k,) which latents have forgotten their start
    unmoved: int  # coordinates of the position that did not move
    dimension: int  # of the position
    acceptance: float

    @property
    def forgotten(self) -> float:
        """Relaxation times of burn-in."""
        return self.turns * self.rate


def measure(key, kernel, trial: Trial, budget: Budget, *, log_tilt=None, finer: int = 1, like: Measured | None = None):
    """Run `kernel` on a trial; with `like`, the run at h, and a step already divided by `finer`, for the same times."""
    k_start, k_init, k_run = jax.random.split(key, 3)
    group = kernel.group
    chains = max(1, int(budget.chains * trial.width) // group) * group
    start = trial.starts(k_start, chains, log_tilt)
    states = begin_all(k_init, kernel, trial.target, start)
    u_start, ok, kept, weights = trial.latents(start), np.ones(chains, bool), [], []
    pace, done, n_grad, acceptance = Pace(budget.chunks // 2, finer, trial.chunks, like), 0, 0.0, 1.0
    while done < 2 * pace.burn:
        length, thin = trial.chunk
        piece = advance(jax.random.clone(k_run), kernel, trial.target, states, length=length, thin=thin, layout="vmap")
        states, done = piece.states, done + 1
        ok &= np.asarray(piece.info.ok).all(1)
        n_grad = float(np.asarray(piece.info.n_grad, float).mean()) / thin
        acceptance = min(acceptance, float(np.mean(piece.info.acceptance)))
        u_now = trial.latents(piece.kept)
        if done in pace.looks:
            pace.look(done, _quickest(_kept(u_start[ok], u_now[ok, -1])))
        if done > pace.burn:
            kept.append(u_now)
            weights.append(np.asarray(piece.info.log_weight, np.float64))
    end = np.asarray(piece.kept)[ok, -1]
    still = np.abs(1 - _kept(np.asarray(start)[ok], end)) < UNMOVED
    judged = _kept(u_start[ok], u_now[ok, -1]) < FORGOTTEN if like is None else like.judged
    found = _summed(trial, kept, weights, ok, group, pace, judged)
    last = _thinned(end, weights[-1][ok, -1])
    went = dict(unmoved=int(still.sum()), dimension=end.shape[-1], acceptance=acceptance)
    return found._replace(n_grad=n_grad, last=last, **went)


class Pace:
    """How many chunks of burn-in a run takes, and as many of draws: by what is left of the start after some chunks.

    A run at h/2 takes 2 chunks for each of the run at h, which is the same time; 4 if it forgets 4 times more slowly,
    as a kernel does whose moves between two draws of its momentum are of length h.
    """

    def __init__(self, most: int, finer: int, chunks: int | None, like: Measured | None):
        self.most, self.finer, self.slower, self.rate, self.first = most, finer, finer, math.inf, 0
        self.burn, self.looks = most, [2**i for i in range(12) if 2**i < most] + [most]
        if chunks:
            self.burn, self.looks = chunks // 2, []
        elif like is not None:
            self.rate, self.first, self.turns = like.rate, like.first, like.turns
            self.burn, self.looks = self.turns * finer, [self.first * finer]
            self.most = self.turns

    def look(self, done: int, left: float) -> None:
        rate = -math.log(left) / done
        if self.finer > 1:
            if rate * self.finer < 0.7 * self.rate:
                self.slower, self.burn = self.finer**2, self.turns * self.finer**2
        elif not self.first and (left < 0.5 or done == self.most):
            self.rate, self.first = rate, done
            self.burn = int(np.clip(math.ceil(FORGET / max(rate, 1e-9)), max(4, done), self.most))


def _thinned(positions: np.ndarray, log_weight: np.ndarray) -> np.ndarray:
    """Positions of equal weight: each stays with probability w / max w; none that is not collected."""
    with np.errstate(invalid="ignore"):
        stays = np.random.default_rng(0).random(len(positions)) < np.exp(log_weight - log_weight.max(initial=-np.inf))
    return positions[stays]


def _kept(u0, u1) -> np.ndarray:
    """What each coordinate has kept of its start: the correlation over chains; 0 where that is not known."""
    if len(u0) < 8:
        return np.zeros(u0.shape[-1])
    with np.errstate(all="ignore"):
        return np.nan_to_num(np.mean((u0 - u0.mean(0)) * (u1 - u1.mean(0)), 0) / (u0.std(0) * u1.std(0)))


def _quickest(kept: np.ndarray) -> float:
    """What the quickest tenth of the coordinates has kept of its start, in (0, 1)."""
    return float(np.clip(np.quantile(np.abs(kept), 0.1), 1e-3, 1 - 1e-9))


def _summed(trial, kept, weights, ok, group, pace: Pace, judged) -> Measured:
    every = slice(pace.slower - 1, None, pace.slower)
    u, log_weight = np.concatenate(kept, 1)[:, every, judged], np.concatenate(weights, 1)[:, every]
    with np.errstate(invalid="ignore"):
        ok = ok & np.isfinite(u).all((1, 2)) & (np.abs(np.nan_to_num(u, nan=np.inf)).max((1, 2)) < FAR)
    whole = ok.reshape(-1, group).all(1).repeat(group)  # a group stands and falls together
    chains, u, log_weight = len(ok), u[whole], log_weight[whole]
    n = int((~whole).sum())
    collected = log_weight > -np.inf
    if not collected.any() or not judged.any():
        nothing, bins = np.full(2 * int(judged.sum()) + 5, np.nan), np.full(N_BINS, np.nan)
        return Measured(nothing, nothing, bins, bins, bins, n, chains, 0.0, 0, 0.0, 1, judged, 0, 0, 1.0)
    w = np.exp(log_weight - log_weight[collected].max())
    together = lambda a: a.reshape(-1, group, *a.shape[1:]).sum(1)
    b = together(w.sum(1))
    mean, stderr = _ratio(together(np.einsum("cn,cnm->cm", w, statistics(u))), b)
    bins, bins_stderr = _ratio(together(histogram(u, w)), b)
    went = pace.burn, pace.rate, max(pace.first, 1)
    return Measured(mean, stderr, bins, bins_stderr, bins, n, chains, 0.0, *went, judged, 0, 0, 1.0)


def _ratio(a, b):
    r = a.sum(0) / b.sum()
    return r, np.sqrt(((a - r * b[:, None]) ** 2).sum(0)) / b.sum()


# --- the limit --------------------------------------------------------------------------------------------------------


class Limit(NamedTuple):
    """The bias extrapolated to h = 0: largest |z|, whether it is met, the order seen, the pooled variance there."""

    z: float
    met: bool
    order: float
    mean: np.ndarray


def zscores(measured: Measured, law: Expected) -> np.ndarray:
    """Bias over its error, of every statistic; NaN where a statistic cannot vary."""
    error = np.hypot(measured.stderr, law.stderr)
    with np.errstate(all="ignore"):
        return np.where(error > 0, (measured.mean - law.mean) / error, np.nan)


def limit(runs: list[Measured], law: Expected, order: float) -> Limit:
    """The extrapolation from two runs (h, h/2), or from three with an appeal."""
    p = 2.0**order
    pairs = [_extrapolated(a, b, p) for a, b in pairwise(runs)]
    mean, stderr = pairs[-1]
    residue, error = mean - law.mean, np.hypot(stderr, law.stderr)
    with np.errstate(all="ignore"):
        z = np.where(error > 0, residue / error, 0.0)
    bad = ~(np.abs(z) < LIMIT)
    if len(pairs) > 1:
        bad &= ~(np.abs(residue) < SHRINK * np.abs(pairs[0][0] - law.mean))
    order, best, stays = _order(runs, law)
    doubtful = stays and abs(z[best]) > DOUBT
    return Limit(float(np.abs(z).max()), not (bad.any() or doubtful), order, mean)


def _extrapolated(whole: Measured, half: Measured, p: float):
    mean = (p * half.mean - whole.mean) / (p - 1)
    return mean, np.hypot(p * half.stderr, whole.stderr) / (p - 1)


def _order(runs: list[Measured], law: Expected) -> tuple[float, int, bool]:
    """log₂ of the fall of the clearest bias when h is halved (NaN where it is not clear), which, and if it stays."""
    whole, half = runs[-2:]
    first, second = zscores(whole, law), zscores(half, law)
    best = int(np.argmax(np.nan_to_num(np.minimum(np.abs(first), np.abs(second)))))
    before, after = whole.mean[best] - law.mean[best], half.mean[best] - law.mean[best]
    change = abs(before - after) / max(math.hypot(whole.stderr[best], half.stderr[best]), 1e-300)
    stays = abs(np.nan_to_num(first[best])) > LIMIT and change < 2.0
    clear = np.hypot(1 / first[best], 1 / second[best]) < 0.17 and before * after > 0  # error of the order below ¼
    return (float(np.log2(before / after)) if clear else math.nan), best, bool(stays)


def total_variation(measured: Measured, bins: np.ndarray) -> tuple[float, float]:
    """½ Σ |difference| of the bins, and what of it Monte Carlo error alone would give."""
    floor = 0.5 * math.sqrt(2 / math.pi) * float(np.sum(measured.bins_stderr))
    return 0.5 * float(np.abs(measured.bins - bins).sum()), floor


# --- a kernel's step size and temperature -----------------------------------------------------------------------------


def holder(kernel, field: str):
    """The kernel, or the one inside it, that has this field; None if none has."""
    while kernel is not None:
        if isinstance(kernel, Foreign):
            return kernel if kernel.has(field) else None
        if is_record(kernel) and field in kernel.__dataclass_fields__:
            return kernel
        kernel = kernel.kernel if isinstance(kernel, Wrapper) else None
    return None


def with_field(kernel, field: str, value):
    """A copy with the field set, wherever it lives; a kernel's own warnings are not repeated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(kernel, Foreign):
            return kernel.changed(field, value)
        return replace(kernel, **{field: value})


def divided(kernel, by: float) -> Any:
    """The kernel with its step size divided, or None if it has none."""
    inner = holder(kernel, "step_size")
    if inner is None:
        return None
    h = inner.step_size
    return with_field(kernel, "step_size", Scaled(h, 1.0 / by) if callable(h) else float(h) / by)
