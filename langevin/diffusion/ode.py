r"""Deterministic samplers: the probability flow ODE from noise to data, by Heun, DPM-Solver++(2M) or Diffrax.

`diffusion.sample` has the variables y = x/m and σ in which they work, and the stochastic samplers.

References
----------
Karras, Aittala, Aila & Laine (2022), Elucidating the design space of diffusion-based generative models, alg. 1.
Lu, Zhou, Bao, Chen, Li & Zhu (2022), DPM-Solver++: fast solver for guided sampling of diffusion probabilistic models,
    alg. 2.
Song, Sohl-Dickstein, Kingma, Kumar, Ermon & Poole (2021), Score-based generative modeling through SDEs, eq. (13).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from langevin.core import noise
from langevin.core.record import nonnegative, positive, record, static
from langevin.diffusion.flow import flow_to_data
from langevin.diffusion.sample import Sampler
from langevin.diffusion.times import RHO, Spacing


@record
class Heun(Sampler):
    """Heun's method for the flow in σ, with or without fresh noise (churn).

    steps: how many.
    spacing: of the times: "natural", "uniform", "quadratic", "rho" or "snr".
    rho: of the spacing "rho".
    churn: S_churn; 0 is deterministic.
    churn_low: the least σ at which noise is added.
    churn_high: the largest.
    churn_noise: S_noise, its standard deviation.
    denoise: whether the noise left at the end is taken off (Tweedie).
    """

    steps: int = static(default=18)
    spacing: Spacing = static(default="rho")
    rho: float = positive(default=RHO)
    churn: float = nonnegative(default=0.0)
    churn_low: float = nonnegative(default=0.0)
    churn_high: float = positive(default=jnp.inf)
    churn_noise: float = positive(default=1.0)
    denoise: bool = static(default=True)

    def draw(self, key, process, score, x, t):
        steps = t.shape[0] - 1
        words, wrap = noise.words(jax.random.split(key, steps))
        sigma, most = process.ratio(t), process.ratio(t[0])
        gamma = jnp.where(
            (sigma >= self.churn_low) & (sigma <= self.churn_high),
            jnp.minimum(self.churn / steps, jnp.sqrt(2.0) - 1),
            0.0,
        )

        def step(y, now):
            sigma, after, gamma, word = now
            hat = jnp.minimum(sigma * (1 + gamma), most)  # never beyond what a network was shown
            # as a product: a difference of squares is rounded to 1e-7 σ², and its root is noise where none is wanted
            extra = jnp.sqrt((hat - sigma) * (hat + sigma)) * self.churn_noise
            y = y + extra * jax.random.normal(wrap(word), y.shape)
            slope = _noise(process, score, y, hat)
            ahead = y + (after - hat) * slope
            return y + (after - hat) * 0.5 * (slope + _noise(process, score, ahead, after)), None

        y, _ = lax.scan(step, x / process.marginal(t[0])[0], (sigma[:-1], sigma[1:], gamma[:-1], words))
        x = process.marginal(t[-1])[0] * y
        return process.denoise(score, x, t[-1]) if self.denoise else x


@record
class DPMSolver(Sampler):
    """DPM-Solver++(2M): two-step, second order, deterministic.

    steps: how many.
    spacing: of the times: "natural", "uniform", "quadratic", "rho" or "snr".
    rho: of the spacing "rho".
    denoise: whether the noise left at the end is taken off (Tweedie).
    """

    steps: int = static(default=20)
    spacing: Spacing = static(default="snr")
    rho: float = positive(default=RHO)
    denoise: bool = static(default=True)

    def draw(self, key, process, score, x, t):
        sigma = process.ratio(t)
        h = jnp.log(sigma[:-1] / sigma[1:])

        def step(carry, now):
            y, before = carry
            sigma, after, lean = now
            data = y - sigma * _noise(process, score, y, sigma)
            ahead = data + lean * (data - before)  # the data's estimate in the middle of the step
            return (after / sigma * y - jnp.expm1(jnp.log(after / sigma)) * ahead, data), None

        lean = jnp.concatenate([jnp.zeros(1), 0.5 * h[1:] / h[:-1]])
        y = x / process.marginal(t[0])[0]
        (y, _), _ = lax.scan(step, (y, jnp.zeros_like(y)), (sigma[:-1], sigma[1:], lean))
        x = process.marginal(t[-1])[0] * y
        return process.denoise(score, x, t[-1]) if self.denoise else x


@record
class ProbabilityFlow(Sampler):
    """The probability flow by Diffrax, with steps as long as an error tolerance allows.

    rtol: relative tolerance.
    atol: absolute tolerance.
    solver: the name of a Diffrax solver.
    most: steps after which it gives up.
    denoise: whether the noise left at the end is taken off (Tweedie).
    """

    rtol: float = positive(default=1e-5)
    atol: float = positive(default=1e-5)
    solver: str = static(default="Tsit5")
    most: int = static(default=4096)
    denoise: bool = static(default=True)
    steps = 1  # of the grid; only its ends are used
    spacing = "uniform"
    rho = RHO

    def draw(self, key, process, score, x, t):
        x = flow_to_data(self, process, score, x, t)
        return process.denoise(score, x, t[-1]) if self.denoise else x


def _noise(process, score, y, sigma):
    """ε̂, the slope of the flow in σ, at y = x/m."""
    t = process.time(sigma)
    m, s = process.marginal(t)
    return -s * score(m * y, t)
