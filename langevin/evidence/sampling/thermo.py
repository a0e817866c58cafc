r"""Thermodynamic integration and stepping stones: log Z from chains at every rung of a ladder.

On the path f_β = q^{1−β} p̃^β, with u = log p̃ − log q and E_β, V_β its mean and variance under f_β/Z_β,

    Thermodynamic   log Z = ∫_0^1 E_β[u] dβ   by the trapezoid rule; "corrected" takes off Σ Δ²/12 (V_{k+1} − V_k), the
                    first term of its error (V_β is the slope of E_β), Δ = β_{k+1} − β_k
    SteppingStone   log Z = Σ_k log E_{β_k} e^{Δ u},   each from draws at the lower of two rungs

A pilot climbs the ladder and leaves a particle and a step size at every rung; from there all rungs run side by side.
The standard error is a jackknife over particles: the estimate is made again without each particle, at all rungs
together, so neither the correlation within a chain nor that between rungs of one particle is left out. The error of
the rule is added to it in quadrature: for the trapezoid its correction, for the corrected rule a quarter of what it
would change to have every second rung alone (a fifteenth on fine ladders). Chains that have not arrived are not seen.

References
----------
Gelman & Meng (1998), Simulating normalizing constants: from importance sampling to bridge sampling to path
  sampling.
Friel & Pettitt (2008), Marginal likelihood estimation via power posteriors; (k/K)^p ladders.
Friel, Hurn & Wyse (2014), Improving power posterior estimation of statistical evidence (the correction).
Xie, Lewis, Fan, Kuo & Chen (2011), Improving marginal likelihood estimation for Bayesian phylogenetic model selection.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import jax
import numpy as np

from langevin.core import moments
from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.kernel import PerChain, Wrapper, replace, spread
from langevin.core.record import record, static
from langevin.core.types import Key
from langevin.evidence.annealing.ladder import to_host_ladder
from langevin.evidence.annealing.step_sizes import USUAL, check_kernel, count_grads, run_pilot
from langevin.evidence.base import Base, draw_starts
from langevin.evidence.method import Method, method
from langevin.evidence.types import Evidence, cost
from langevin.targets.path import Geometric

Rule = Literal["trapezoid", "corrected"]


@record
class At(Wrapper):
    """A kernel that stays at one β of a path.

    kernel: the kernel.
    beta: β.
    """

    kernel: Any
    beta: Any = 1.0

    def init(self, key, position, target):
        return self.kernel.init(key, position, target.at(self.beta))

    def step(self, key, state, target):
        return self.kernel.step(key, state, target.at(self.beta))


@record
class Ratio:
    """What is kept of a state: u = log p̃ − log q.

    path: from q to p̃.
    """

    path: Any

    def __call__(self, state):
        return self.path.target.log_density(state.position) - self.path.base.log_density(state.position)


@record
class Rungs(Method):
    """Abstract: chains at every rung of a ladder.

    ladder: the rungs, or how many.
    kernel: an exact kernel, used as it is; None for HMC with step sizes from a pilot.
    particles: chains at each rung.
    draws: kept of each chain.
    warmup: steps before them.
    """

    ladder: Any = static(default=32)
    kernel: Any = None
    particles: int = static(default=16)
    draws: int = static(default=200)
    warmup: int = static(default=100)

    def __post_init__(self):
        if min(self.particles, self.draws) < 1 or self.warmup < 0:
            raise ValueError(
                f"thermo: {self.particles} particles, {self.draws} draws, {self.warmup} of warm-up; take 1, 1 and 0 or "
                "more."
            )
        check_kernel(self.kernel)

    def sample(self, key: Key, target: Any, base: Base) -> tuple[np.ndarray, np.ndarray, int]:
        """The ladder, u (rung, particle, draw) in float64, and how many gradients it took."""
        k_start, k_pilot, k_init, k_run = jax.random.split(key, 4)
        beta, path, particles = to_host_ladder(self.ladder), Geometric(base, target), self.particles
        start = draw_starts(k_start, base, target, particles)
        kernel, wanted = (USUAL, 0.8) if self.kernel is None else (self.kernel, None)
        h, positions, n_grad = run_pilot(k_pilot, kernel, path, beta, start, acceptance=wanted)
        each = replace(spread(At(kernel), len(beta) * particles), beta=np.repeat(beta, particles))
        if wanted is not None:
            each = replace(each, step_size=np.repeat(h.astype(beta.dtype), particles))
        kernels = PerChain(each)
        states = begin_all(k_init, kernels, path, jax.tree.map(lambda *x: np.concatenate(x), *positions))
        out = advance(k_run, kernels, path, states, length=self.warmup + self.draws, collect=Ratio(path))
        u = np.asarray(out.kept, np.float64)[:, self.warmup :].reshape(len(beta), particles, self.draws)
        return beta.astype(np.float64), u, n_grad + count_grads(out.info)


@method("thermo")
class Thermodynamic(Rungs):
    """Thermodynamic integration: log Z as the integral of E_β[u] over the ladder, consistent.

    rule: "corrected" or "trapezoid". The other settings are those of `Rungs`.
    """

    rule: Rule = static(default="corrected")

    def __post_init__(self):
        super().__post_init__()
        if self.rule not in ("trapezoid", "corrected"):
            raise ValueError(f"thermo: rule is {self.rule!r}; it must be 'trapezoid' or 'corrected'.")

    def estimate_evidence(self, key, target, base, draws) -> Evidence:
        beta, u, n_grad = self.sample(key, target, base)
        if not np.isfinite(u).all():
            raise ValueError(
                "thermo: the log density is −∞ or NaN at draws of some rung, and E_β[u] does not exist there; take a "
                "base within the support of the target, or stepping stones."
            )
        found = _summarize(partial(integrate, beta, rule=self.rule), u, n_grad, target)
        return replace(found, stderr=np.hypot(found.stderr, discretization_error(beta, u, self.rule)))


@method("stepping")
class SteppingStone(Rungs):
    """Stepping stones: log Z as a product of ratios of neighbouring rungs, consistent; its settings are `Rungs`'."""

    def estimate_evidence(self, key, target, base, draws) -> Evidence:
        beta, u, n_grad = self.sample(key, target, base)
        if np.isnan(u).any() or np.isneginf(u[:-1]).all((1, 2)).any():
            raise ValueError("stepping: the log density is NaN, or −∞ at all draws of a rung; take a finer ladder.")
        return _summarize(partial(sum_stones, beta), u, n_grad, target)


def integrate(beta: np.ndarray, u: np.ndarray, *, rule: Rule) -> float:
    """∫ E_β[u] dβ from values u (rung, particle, draw)."""
    rise, mean = np.diff(beta), u.mean((1, 2))
    value = np.sum(rise * 0.5 * (mean[1:] + mean[:-1]))
    if rule == "corrected":
        value -= np.sum(rise**2 / 12 * np.diff(u.var((1, 2))))
    return float(value)


def discretization_error(beta: np.ndarray, u: np.ndarray, rule: Rule) -> float:
    """How far the rule may be off on this ladder."""
    full = integrate(beta, u, rule="corrected")
    if rule == "trapezoid":
        return abs(integrate(beta, u, rule=rule) - full)
    half = np.unique(np.append(np.arange(0, len(beta), 2), len(beta) - 1))
    return abs(integrate(beta[half], u[half], rule="corrected") - full) / 4


def sum_stones(beta: np.ndarray, u: np.ndarray) -> float:
    """Σ_k log mean e^{Δ u} from values u (rung, particle, draw)."""
    work = np.diff(beta)[:, None] * u[:-1].reshape(len(beta) - 1, -1)
    top = work.max(1)
    return float(np.sum(top + np.log(np.exp(work - top[:, None]).mean(1))))


def jackknife(estimate: Callable[[np.ndarray], float], u: np.ndarray) -> tuple[float, float]:
    """An estimate from u (rung, particle, draw), and its standard error: the spread of those without one particle."""
    chains = u.shape[1]
    if chains < 2:
        return estimate(u), np.inf
    without = np.asarray([estimate(np.delete(u, i, axis=1)) for i in range(chains)])
    return estimate(u), float(np.sqrt((chains - 1) * without.var()))


def _summarize(estimate, u: np.ndarray, n_grad: int, target) -> Evidence:
    value, error = jackknife(estimate, u)
    usual = u[np.isfinite(u).all((1, 2))]
    least = np.nanmin(moments.effective(np.moveaxis(usual, 0, 2))) if len(usual) and u.shape[2] > 3 else u.shape[1]
    return Evidence(np.asarray(value), error, ess=least, guarantee="consistent", **cost(n_grad, target))
