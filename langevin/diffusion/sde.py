r"""Forward diffusions with linear drift: variance preserving, sub-VP, variance exploding, and that of EDM.

    dx = a(t) x dt + g(t) dw,      x_t | x_0 ~ N(m_t x_0, s_t² I).

With B(t) = ∫₀ᵗ β, β(t) = first + t (last − first), and σ(t) = low (high/low)^t:

             a        g²                     m         s²                      prior
    VP       −β/2     β                      e^{−B/2}  1 − e^{−B}              N(0, I)
    SubVP    −β/2     β (1 − e^{−2B})        e^{−B/2}  (1 − e^{−B})²           N(0, I)
    VE       0        2 σ(t)² ln(high/low)   1         σ(t)² − low²            N(0, high² I)
    EDM      0        2 t                    1         t²                      N(0, high² I)

Time runs from 0 (the data) to `end`; samplers stop at `cut`, where the noise is too small to see. The noise-to-signal
ratio σ = s/m says how far along a diffusion is, whichever it is: in y = x/m all four are dy = √(dσ²/dt) dw, so the
solvers that work in σ (Heun, DPM-Solver++) serve all. `time` is the inverse of `ratio`. For training, times come from
a law `drawn` from uniform numbers, of density `density`.

References
----------
Song, Sohl-Dickstein, Kingma, Kumar, Ermon & Poole (2021), Score-based generative modeling through SDEs, §3.4, eq. (29)
    (VE has variance σ(t)² − low², not σ(t)²).
Karras, Aittala, Aila & Laine (2022), Elucidating the design space of diffusion-based generative models, table 1.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from langevin.core.record import positive, record
from langevin.core.types import Key, Scalar

TRAINED = 1e-5  # the smallest time a network on [0, 1] is trained at


class Process:
    """Abstract: a diffusion with linear drift; subclasses give `rate`, `diffusion`, `marginal` and `time`."""

    cut: Any
    end: Any = 1.0
    prior_std: Any = 1.0
    natural = "uniform"  # the spacing of times it is best run in

    def rate(self, t) -> Scalar:
        """a(t), the drift at x = 1."""
        raise NotImplementedError

    def diffusion(self, t) -> Scalar:
        """g(t)."""
        raise NotImplementedError

    def marginal(self, t) -> tuple[Scalar, Scalar]:
        """m_t and s_t."""
        raise NotImplementedError

    def time(self, ratio) -> Scalar:
        """The time at which s/m is `ratio`."""
        raise NotImplementedError

    def drift(self, x, t):
        return self.rate(t) * x

    def ratio(self, t) -> Scalar:
        """s/m, which grows with time."""
        mean, std = self.marginal(t)
        return std / mean

    def prior(self, key: Key, shape: tuple[int, ...]) -> jax.Array:
        """Where sampling begins."""
        return self.prior_std * jax.random.normal(key, shape)

    def prior_log_prob(self, x) -> Scalar:
        z = x / self.prior_std
        return -0.5 * jnp.sum(z**2) - x.size * (jnp.log(self.prior_std) + 0.5 * math.log(2 * math.pi))

    def spread(self, t, x):
        """g(t), in a shape that multiplies x."""
        return self.diffusion(t)

    def denoise(self, score, x, t):
        """What is left of x_t when the noise is taken off: E[x₀ | x_t] (Tweedie)."""
        m, s = self.marginal(t)
        return (x + s**2 * score(x, t)) / m

    def growth(self, t, size: int) -> Scalar:
        """∫₀ᵗ ∇·f of x with `size` numbers: how the forward drift alone changes a log volume."""
        return size * jnp.log(self.marginal(t)[0])

    def clock(self, t) -> Scalar:
        """What a network is told the time is."""
        return jnp.asarray(t)

    def drawn(self, u) -> Scalar:
        """A training time, of u uniform on (0, 1)."""
        return TRAINED + (self.end - TRAINED) * u

    def density(self, t) -> Scalar:
        """The density of training times."""
        return jnp.ones_like(t) / (self.end - TRAINED)


@record
class Preserving(Process):
    """Abstract: β rises linearly from `first` to `last`, on [0, 1].

    first: β(0).
    last: β(1).
    cut: the time at which samplers stop.
    """

    first: float = positive(default=0.1)
    last: float = positive(default=20.0)
    cut: float = positive(default=1e-3)

    def __post_init__(self):
        _rising(type(self).__name__, "first", self.first, "last", self.last)

    def beta(self, t) -> Scalar:
        return self.first + t * (self.last - self.first)

    def integral(self, t) -> Scalar:
        """B(t) = ∫₀ᵗ β."""
        return t * self.first + 0.5 * t**2 * (self.last - self.first)

    def when(self, integral) -> Scalar:
        """The time at which B is `integral`; written so that nothing cancels near 0."""
        return 2 * integral / (self.first + jnp.sqrt(self.first**2 + 2 * (self.last - self.first) * integral))

    def rate(self, t):
        return -0.5 * self.beta(t)


@record
class VP(Preserving):
    """Variance preserving: the limit of DDPM."""

    def diffusion(self, t):
        return jnp.sqrt(self.beta(t))

    def marginal(self, t):
        b = self.integral(t)
        return jnp.exp(-0.5 * b), jnp.sqrt(-jnp.expm1(-b))

    def time(self, ratio):
        return self.when(jnp.log1p(ratio**2))


@record
class SubVP(Preserving):
    """Sub-variance preserving: less noise than VP at every time, the same prior."""

    def diffusion(self, t):
        return jnp.sqrt(-self.beta(t) * jnp.expm1(-2 * self.integral(t)))

    def marginal(self, t):
        b = self.integral(t)
        return jnp.exp(-0.5 * b), -jnp.expm1(-b)

    def time(self, ratio):
        return self.when(2 * jnp.arcsinh(0.5 * ratio))  # s/m = 2 sinh(B/2)


class Exploding(Process):
    """Abstract: noise is added to data that keep their size, up to `high`."""

    high: Any

    @property
    def prior_std(self):
        return self.high

    def rate(self, t):
        return jnp.zeros_like(t)


@record
class VE(Exploding):
    """Variance exploding: the limit of NCSN, with its exact variance σ(t)² − low².

    low: σ(0).
    high: σ(1); about the largest distance between two examples.
    cut: the time at which samplers stop.
    """

    low: float = positive(default=0.01)
    high: float = positive(default=50.0)
    cut: float = positive(default=1e-5)

    def __post_init__(self):
        _rising("VE", "low", self.low, "high", self.high)

    def diffusion(self, t):
        growth = jnp.log(self.high / self.low)
        return self.low * jnp.exp(t * growth) * jnp.sqrt(2 * growth)

    def marginal(self, t):
        growth = jnp.log(self.high / self.low)
        return jnp.ones_like(t), self.low * jnp.sqrt(jnp.expm1(2 * t * growth))

    def time(self, ratio):
        return jnp.log1p((ratio / self.low) ** 2) / (2 * jnp.log(self.high / self.low))


@record
class EDM(Exploding):
    """The diffusion whose time is the noise itself: s = t.

    cut: the least noise, where samplers stop.
    high: the most, where they begin.
    log_mean: mean of ln σ in training.
    log_std: standard deviation of ln σ in training.
    """

    cut: float = positive(default=0.002)
    high: float = positive(default=80.0)
    log_mean: float = -1.2
    log_std: float = positive(default=1.2)
    natural = "rho"

    def __post_init__(self):
        _rising("EDM", "cut", self.cut, "high", self.high)

    @property
    def end(self):
        return self.high

    def diffusion(self, t):
        return jnp.sqrt(2.0 * t)

    def marginal(self, t):
        return jnp.ones_like(t), jnp.asarray(t)

    def time(self, ratio):
        return jnp.asarray(ratio)

    def clock(self, t):
        return 0.25 * jnp.log(t)

    def drawn(self, u):
        return jnp.exp(self.log_mean + self.log_std * jax.scipy.special.ndtri(u))

    def density(self, t):
        return jax.scipy.stats.norm.pdf(jnp.log(t), self.log_mean, self.log_std) / t


def _rising(name: str, low: str, a, high: str, b) -> None:
    """Refuse an order that would run backwards; traced values are not looked at."""
    if not any(isinstance(u, jax.core.Tracer) for u in (a, b)) and not a < b:
        raise ValueError(f"{name}: {low} is {a} and {high} is {b}; {low} must be below {high}.")
