r"""Samplers of diffusion models: from noise to data along the reverse of the forward diffusion.

For every a ≥ 0 the process

    dx = [f − ½(1 + a²) g² s] dt + a g dw̄,      s(x, t) = ∇log p_t(x),

run backwards has the marginals of the forward one: a = 1 is the reverse SDE, a = 0 the probability flow.

    EulerMaruyama        any a; strong and weak order 1; the last step adds no noise
    PredictorCorrector   a step of it, then steps of any kernel of the library at the new time, on the score as a target
    Heun                 the flow in σ = s/m by Heun's method, order 2, two looks a step, optional churn
    DPMSolver                  DPM-Solver++(2M): the flow with its linear part exact, order 2, one look a step
    ProbabilityFlow                 the flow by an adaptive Runge-Kutta method (Diffrax)

In y = x/m the flow is dy/dσ = ε̂ = −s_t · score, for all diffusions here, so Heun and DPMSolver work in (y, σ). The
corrector moves in units of s_t, so SGLD(r²) has the constant step δ = (r s_t)²: a step that followed |s(x)|, as is
often used, would depend on the state and change the law. A sampler is a record; `generate` runs it on
n chains in one program.

References
----------
Song, Sohl-Dickstein, Kingma, Kumar, Ermon & Poole (2021), Score-based generative modeling through SDEs,
    alg. 1, eq. (6).
Karras, Aittala, Aila & Laine (2022), Elucidating the design space of diffusion-based generative models, alg. 1-2.
Lu, Zhou, Bao, Chen, Li & Zhu (2022), DPM-Solver++, alg. 2.
Zhang & Chen (2021), Diffusion normalizing flow, eq. (13) (the family in a).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import lax

from langevin.core import noise
from langevin.core.record import as_record, nonnegative, positive, record, static
from langevin.core.types import Key
from langevin.diffusion.annealed import check_kernel, level_of, move
from langevin.diffusion.times import RHO, Spacing, check_choice, check_spacing, check_steps, checked, times
from langevin.samplers.sgld import SGLD


def generate(
    key: Key,
    sampler: Any,
    process: Any,
    score: Callable,
    shape: tuple[int, ...],
    *,
    n: int = 1,
    start: jax.Array | None = None,
    grid: Any = None,
    condition: tuple = (),
    block: int | None = None,
) -> jax.Array:
    """n draws (n, *shape) of the data.

    score: (x, t, *condition) → ∇log p_t(x), a record or a module-level function.
    start: (n, *shape) at the time `end`; drawn from the prior if None. grid: own times, from `end` down to the data.
    condition: trees with a leading axis n that the score is also shown. block: draws at a time, if memory is short.
    """
    if start is None and n < 1:
        raise ValueError(f"generate: n is {n}; it must be 1 or more.")
    score = as_record(score)
    if isinstance(sampler, PredictorCorrector):
        check_kernel(type(sampler).__name__, sampler.corrector, score)
    t = times(process, sampler.steps, sampler.spacing, sampler.rho) if grid is None else checked(process, grid)
    k_start, k_run = jax.random.split(key)
    if start is None:
        start = process.prior(k_start, (n, *shape))
    elif start.shape[1:] != tuple(shape):
        raise ValueError(f"generate: start has shape {start.shape}, but a draw has {tuple(shape)}; pass (n, *shape).")
    return _sample(k_run, sampler, process, score, start, t, condition, block=block)


@partial(jax.jit, static_argnames=("block",))
def _sample(key, sampler, process, score, start, t, condition, *, block):
    words, wrap = noise.words(jax.random.split(key, start.shape[0]))
    one = lambda now: sampler.draw(wrap(now[0]), process, _Shown(score, now[2]), now[1], t)
    rows = (words, start, condition)
    return jax.vmap(one)(rows) if block is None else lax.map(one, rows, batch_size=block)


class _Shown:
    """A score with its condition given: (x, t)."""

    def __init__(self, score, condition):
        self.score, self.condition = score, condition

    def __call__(self, x, t):
        return self.score(x, t, *self.condition)

    def level(self, t, scale) -> Any:
        return level_of(self.score, t, scale, self.condition)


class Sampler:
    """Abstract: a subclass has `steps`, `spacing`, `rho` and `draw` of one x."""

    steps: int
    spacing: str

    def __post_init__(self):
        check_steps(type(self).__name__, self.steps)
        check_spacing(type(self).__name__, self.spacing)

    def draw(self, key: Key, process, score: _Shown, x, t):
        """x at the data, from x at t[0]."""
        raise NotImplementedError


def reverse(process, score, x, t, a):
    """The drift of the reverse family, and its noise a g."""
    g = process.spread(t, x)
    return process.drift(x, t) - 0.5 * (1 + a**2) * g**2 * score(x, t), a * g


@record
class EulerMaruyama(Sampler):
    """The reverse SDE, Euler discretised.

    steps: how many.
    spacing: of the times: "natural", "uniform", "quadratic", "rho" or "snr".
    rho: of the spacing "rho".
    stochasticity: a; 1 for the reverse SDE, 0 for the probability flow.
    denoise: whether the last step is without noise.
    increments: if given, a multiple of `steps`: the Brownian path is drawn in so many pieces, so that with one key all
        numbers of steps that divide it follow the same path.
    """

    steps: int = static(default=500)
    spacing: Spacing = static(default="natural")
    rho: float = positive(default=RHO)
    stochasticity: float = nonnegative(default=1.0)
    denoise: bool = static(default=True)
    increments: int | None = static(default=None)

    def __post_init__(self):
        Sampler.__post_init__(self)
        if self.increments is not None and self.increments % self.steps:
            raise ValueError(
                f"EulerMaruyama: increments is {self.increments}, no multiple of {self.steps} steps; take one."
            )

    def draw(self, key, process, score, x, t):
        steps = t.shape[0] - 1
        pieces = (self.increments or steps) // steps
        words, wrap = noise.words(jax.random.split(key, (steps, pieces)))

        def step(x, now):
            t, after, words = now
            drift, g = reverse(process, score, x, t, self.stochasticity)
            mean = x - (t - after) * drift
            xi = sum(jax.random.normal(wrap(words[i]), x.shape) for i in range(pieces)) / jnp.sqrt(pieces)
            return mean + g * jnp.sqrt(t - after) * xi, mean

        # the mean of every step is made and only the last is kept, so the network is compiled once
        (x, mean), _ = lax.scan(lambda carry, now: (step(carry[0], now), None), (x, x), (t[:-1], t[1:], words))
        return mean if self.denoise else x


@record
class PredictorCorrector(Sampler):
    """Euler-Maruyama steps, each followed (or preceded) by steps of a kernel that leaves p_t where it is.

    steps: predictor steps.
    spacing: of the times: "natural", "uniform", "quadratic", "rho" or "snr".
    rho: of the spacing "rho".
    corrector: any kernel of the library, in units of the noise s_t: SGLD(r²) has the step (r s_t)². Metropolis kernels
        need a score with a log density.
    inner: steps of the corrector at every time.
    order: "predictor" or "corrector", which of the two comes first; the last x is corrected either way.
    stochasticity: a of the predictor.
    denoise: whether the noise left at the end is taken off (Tweedie).
    """

    steps: int = static(default=500)
    spacing: Spacing = static(default="natural")
    rho: float = positive(default=RHO)
    corrector: Any = SGLD(0.16**2)
    inner: int = static(default=1)
    order: Literal["predictor", "corrector"] = static(default="predictor")
    stochasticity: float = nonnegative(default=1.0)
    denoise: bool = static(default=True)

    def __post_init__(self):
        Sampler.__post_init__(self)
        check_choice("PredictorCorrector", "order", self.order, ("predictor", "corrector"))
        if self.inner < 1:
            raise ValueError(f"PredictorCorrector: inner is {self.inner}; it must be 1 or more.")

    def draw(self, key, process, score, x, t):
        words, wrap = noise.words(jax.random.split(key, (t.shape[0], 2)))

        def correct(word, x, t):
            return move(wrap(word), self.corrector, score.level(t, process.marginal(t)[1]), x, self.inner)

        def step(x, now):
            t, after, words = now
            drift, g = reverse(process, score, x, t, self.stochasticity)
            xi = jax.random.normal(wrap(words[0]), x.shape)
            x = x - (t - after) * drift + g * jnp.sqrt(t - after) * xi
            return correct(words[1], x, after), None

        if self.order == "corrector":
            x = correct(words[0, 1], x, t[0])
        x, _ = lax.scan(step, x, (t[:-1], t[1:], words[1:]))
        return process.denoise(score, x, t[-1]) if self.denoise else x
