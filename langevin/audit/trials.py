r"""What a sampler is tried on: targets whose truth is known, each with its budget.

Every target is in the unit of length in which its steepest direction has E[(e·∇log p)²] = 1 (of its Fisher matrix the
largest eigenvalue), so one step size means the same on all of them, for overdamped and for underdamped kernels alike.
A target has a `latent`: k coordinates of known law, judged together in one histogram (bins of 0.1 on [−4, 4] and two
tails, as in Rensmeyer & Niggemann 2024) and by moments.

    normal          N(0, 1) in one dimension
    paper           the same at h = 1e-4, 10⁷ steps a chain, as there; kernels without momentum, sizes cpu and gpu
    gaussian        4 independent Gaussians, scales 1 to 4
    cold            the same at T = ¼
    gaussian50      correlated and ill-scaled (targets.turned)
    banana50        bent and turned (targets.turned)
    funnel          10 dimensions, v ~ N(0, 1); judged by v
    logistic        Bayesian logistic regression, all data
    logistic-50     the same on mini-batches of 50 of its 200 examples; logistic-12: of 12

The truth of the last three is by importance sampling from the Laplace approximation, with its own error.

References
----------
Rensmeyer & Niggemann (2024), On the convergence of locally adaptive and scalable diffusion-based sampling methods, §4.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr

from langevin.audit.bins import EDGES
from langevin.core import noise
from langevin.targets.rotated import Rescaled, banana50, gaussian50
from langevin.targets.zoo import Funnel, Gaussian, laplace_draws, logistic

N_BINS = len(EDGES) - 1
PAPER = {"step_size": 1e-4, "chunk": (20, 500), "chunks": 1000}  # 10⁷ steps
N_DATA, D_DATA, BATCHES = 200, 8, (50, 12)


class Budget(NamedTuple):
    """How much a size spends on a trial: chains, and the most chunks of steps after which it gives up."""

    chains: int
    chunks: int


SIZES = {"quick": Budget(512, 32), "cpu": Budget(2048, 200), "gpu": Budget(16384, 2000)}


class Expected(NamedTuple):
    """What a law says of the statistics (m,), its own standard errors, and the probabilities of the bins."""

    mean: np.ndarray
    stderr: np.ndarray
    bins: np.ndarray


@dataclasses.dataclass(frozen=True)
class Trial:
    """One target and its truth.

    name: in figures and on the command line.
    target: in the unit of its steepest direction.
    latent: position → (k,), the coordinates judged.
    expected: judged → the truth of `statistics` of those latents.
    draws: (n, d) positions and their log weights under the truth.
    exact: (key, n) → n fresh draws of the truth, where there are some; else `draws` are resampled.
    temperature: T of the kernel; the truth is p^(1/T).
    width: chains as a share of the budget's.
    step_size: to set, where the kernel's own is not what is tried.
    chunk: (draws, steps between them) of one compiled piece of a run.
    chunks: of a run, where it is not found by how quickly the chain forgets its start.
    """

    name: str
    target: Any
    latent: Callable
    expected: Callable[[np.ndarray], Expected]
    draws: Callable[[], tuple[np.ndarray, np.ndarray]]
    exact: Callable[[Any, int], jax.Array] | None = None
    temperature: float = 1.0
    width: float = 1.0
    step_size: float | None = None
    chunk: tuple[int, int] = (4, 8)
    chunks: int | None = None

    @property
    def stochastic(self) -> bool:
        return self.target.stochastic

    def latents(self, positions) -> np.ndarray:
        """(…, d) positions → (…, k)."""
        flat = jnp.asarray(positions).reshape(-1, np.shape(positions)[-1])
        return np.asarray(_mapped(self.latent)(flat)).reshape(*np.shape(positions)[:-1], -1)

    def starts(self, key, n: int, log_tilt=None) -> jax.Array:
        """n draws of the truth, or of the truth tilted by weights of the draws; other keys give other draws."""
        if self.exact is not None and log_tilt is None:
            return self.exact(key, n)
        positions, log_weight = self.draws()
        log_weight = log_weight if log_tilt is None else log_tilt
        index = jax.random.categorical(key, jnp.asarray(log_weight), shape=(n,))
        return jnp.asarray(positions)[index]


@cache
def _mapped(latent: Callable) -> Callable:
    return jax.jit(jax.vmap(latent))


# --- what is looked at ------------------------------------------------------------------------------------------------


def statistics(u: np.ndarray) -> np.ndarray:
    """(…, k) latents → (…, 2k + 5): u and u² of each, then pooled: u², u⁴, |u| < ½, |u| > 2, neighbours' products."""
    u = np.asarray(u, np.float64)
    pooled = [u**2, u**4, np.abs(u) < 0.5, np.abs(u) > 2.0]
    pooled = [v.mean(-1) for v in pooled] + [(u * np.roll(u, 1, -1)).mean(-1) if u.shape[-1] > 1 else 0.0 * u[..., 0]]
    return np.concatenate([u, u**2, np.stack(pooled, -1)], -1)


def variance_index(m: int) -> int:
    """Where m `statistics` have the pooled u²; half as far they have the u² of the first coordinate."""
    return m - 5


def histogram(u: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted counts of (row, draw, k) latents in the bins, for every row; weights (row, draw)."""
    bins = np.clip(np.floor((np.nan_to_num(u, nan=99.0).clip(-5, 5) + 4.0) * 10.0).astype(int) + 1, 0, N_BINS - 1)
    rows = np.arange(len(u))[:, None, None] * N_BINS
    weights = np.broadcast_to(weights[..., None], u.shape) / u.shape[-1]
    return np.bincount((rows + bins).ravel(), weights.ravel(), len(u) * N_BINS).reshape(len(u), N_BINS)


def standard(k: int) -> Expected:
    """The truth of k independent N(0, 1)."""
    pooled = [1.0, 3.0, ndtr(0.5) - ndtr(-0.5), 2 * ndtr(-2.0), 0.0]
    mean = np.concatenate([np.zeros(k), np.ones(k), pooled])
    return Expected(mean, np.zeros_like(mean), np.diff(ndtr(EDGES)))


def weighted(u: np.ndarray, log_weight: np.ndarray, *, independent: bool = True) -> Expected:
    """The truth by weighted points (n, k); a quadrature grid has no standard error."""
    w = np.exp(log_weight - log_weight.max())
    w /= w.sum()
    values = statistics(u)
    mean = w @ values
    stderr = np.sqrt(w**2 @ (values - mean) ** 2) if independent else np.zeros_like(mean)
    return Expected(mean, stderr, histogram(u[None], w[None])[0])


# --- the trials -------------------------------------------------------------------------------------------------------


def exact_trial(name: str, target, *, judged=None, temperature=1.0, n=1 << 15, **more) -> Trial:
    """A trial of a zoo target whose latents are N(0, 1); T ≠ 1 is for Gaussians of mean 0 only."""
    stretched = Rescaled(target, unit(target))
    root = math.sqrt(temperature)
    latent = lambda x: stretched.latent(x / root)[:judged]
    exact = lambda key, count: root * stretched.exact(key, count)
    truth = lambda those: standard(int(np.sum(those)))

    @cache
    def draws():
        positions = root * np.asarray(stretched.exact(noise.key(11, impl="hash"), n))
        return positions, np.zeros(n)

    return Trial(name, stretched, latent, truth, draws, exact, temperature, **more)


def unit(target) -> float:
    """1/√λ, λ the largest eigenvalue of E[∇log p ∇log pᵀ]."""
    if isinstance(target, Gaussian):
        return float(np.linalg.eigvalsh(np.asarray(target.cov, np.float64))[0] ** 0.5)
    draws = target.exact(noise.key(7, impl="hash"), 1 << 13)
    grads = np.asarray(jax.jit(jax.vmap(jax.grad(target.log_density)))(draws), np.float64)
    return float(np.linalg.eigvalsh(grads.T @ grads / len(grads))[-1] ** -0.5)


@cache
def _posterior():
    """The logistic posterior in its unit, importance draws of it, their log weights, mean and standard deviation."""
    plain = logistic(noise.key(5, impl="hash"), N_DATA, D_DATA)
    x, log_w = map(np.asarray, laplace_draws(noise.key(6, impl="hash"), plain, D_DATA, 1 << 16))
    w = np.exp(log_w - log_w.max())
    w /= w.sum()
    mean = w @ x
    cov = ((x - mean) * w[:, None]).T @ (x - mean)
    length = float(np.linalg.eigvalsh(cov)[0] ** 0.5)
    return x / length, log_w, mean / length, np.sqrt(np.diag(cov)) / length, length


def posterior_trial(name: str, batch: int | None) -> Trial:
    """The logistic posterior, its latents standardised."""
    x, log_w, mean, sd, length = _posterior()
    target = Rescaled(logistic(noise.key(5, impl="hash"), N_DATA, D_DATA, batch=batch), length)
    latent = lambda position: (position - jnp.asarray(mean)) / jnp.asarray(sd)
    truth = lambda those: weighted(((x - mean) / sd)[:, those], log_w)
    return Trial(name, target, latent, truth, lambda: (x, log_w), width=2.0)


BUILT: dict[str, Callable[[], Trial]] = {
    "normal": lambda: exact_trial("normal", Gaussian([0.0], [1.0]), width=16.0),
    "paper": lambda: exact_trial("paper", Gaussian([0.0], [1.0]), width=1 / 32, **PAPER),
    "gaussian": lambda: exact_trial("gaussian", _four(), width=4.0),
    "cold": lambda: exact_trial("cold", _four(), temperature=0.25, width=4.0),
    "gaussian50": lambda: exact_trial("gaussian50", gaussian50()),
    "banana50": lambda: exact_trial("banana50", banana50()),
    "funnel": lambda: exact_trial("funnel", Funnel(10, 1.0), judged=1, width=2.0, chunk=(4, 32)),
    "logistic": lambda: posterior_trial("logistic", None),
    **{f"logistic-{b}": partial(posterior_trial, f"logistic-{b}", b) for b in BATCHES},
}


def _four() -> Gaussian:
    return Gaussian(np.zeros(4), np.array([1.0, 2.0, 8.0, 16.0]))


def named(names, size: str) -> list[Trial]:
    """The trials of these names, or all that this size runs."""
    if size not in SIZES:
        raise ValueError(f"audit: size is {size!r}; it must be cpu, gpu or quick.")
    chosen = list(names) if names else [n for n in BUILT if n != "paper" or size != "quick"]
    for name in chosen:
        if name not in BUILT:
            raise ValueError(f"audit: there is no target named {name!r}; there are {', '.join(BUILT)}.")
    return [_built(name) for name in chosen]


@cache
def _built(name: str) -> Trial:
    return BUILT[name]()
