r"""Critically-damped Langevin diffusion: data with velocities, noise on the velocities only.

    dx = M⁻¹ v β dt,      dv = −x β dt − Γ M⁻¹ v β dt + √(2 Γ β) dw,      Γ = 2√M,

with the law N(0, I) × N(0, M I) at rest, and v₀ ~ N(0, γM I). u = (x, v) is one array, (2, …). Let y = 4 β t/Γ and
T(y) = e^y − 1 − y − y²/2. A start of variances (a, c) has, per coordinate,

    mean        e^{−y/2} [[1 + y/2, y/Γ], [−yΓ/4, 1 − y/2]] u₀
    covariance  e^{−y} (T, y²Γ/4, Γ²/4 (2y + T)) + a m₁m₁ᵀ + c m₂m₂ᵀ,    m₁, m₂ the columns of the matrix above,

in which, unlike in the usual form, nothing cancels at small t: single precision is enough. With L its Cholesky factor,
x first, only the noise ε_v of the velocity is to be predicted, ∇_v log p(u_t | x₀) = −ε_v/L₂₂ (hybrid score matching,
v₀ integrated out); the network may predict what is missing from the score of Gaussian data (`mixed`).

Backwards, s = ∇_v log p_t enters dv alone. `SSCS` splits the reverse SDE: with −M⁻¹v in place of s it is linear, and is
the forward diffusion with v turned round, so half a step of it is exact; then the rest, dv = 2Γβ (s + M⁻¹v) dt, is one
Euler step at the middle time; then half a step again. EulerMaruyama, ProbabilityFlow and `log_prob` take
CLD too.

References
----------
Dockhorn, Vahdat & Kreis (2022), Score-based generative modeling with critically-damped Langevin diffusion, §3.1 (HSM),
    §3.2 (mixed score), §3.3 (SSCS), app. B (moments).
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from langevin.core import noise
from langevin.core.record import positive, record, static
from langevin.core.types import Key, PyTree, Scalar
from langevin.diffusion.likelihood import LogProb, log_prob
from langevin.diffusion.loss import stratified
from langevin.diffusion.sample import Sampler
from langevin.diffusion.score import applied
from langevin.diffusion.sde import TRAINED, Process
from langevin.diffusion.times import RHO, Spacing


def tail(y):
    """T(y) = e^y − 1 − y − y²/2, by its series where the difference would cancel."""
    series = sum(y**k / math.factorial(k) for k in range(3, 12))
    return jnp.where(y < 1, series, jnp.expm1(y) - y - 0.5 * y**2)


@record
class CLD(Process):
    """Critically-damped Langevin diffusion on u = (x, v), an array (2, …).

    beta: β, how fast time runs.
    mass: M; Γ = 2√M is critical damping.
    gamma: γ; velocities start at N(0, γM).
    cut: the time at which samplers stop.
    """

    beta: float = positive(default=4.0)
    mass: float = positive(default=0.25)
    gamma: float = positive(default=0.04)
    cut: float = positive(default=1e-3)
    natural = "quadratic"

    @property
    def friction(self) -> Scalar:
        """Γ."""
        return 2 * jnp.sqrt(self.mass)

    def scaled(self, t) -> Scalar:
        """y = 4βt/Γ."""
        return 4 * self.beta * t / self.friction

    def transition(self, t):
        """The matrix of the mean: entries (xx, xv, vx, vv)."""
        y, decay = self.scaled(t), jnp.exp(-0.5 * self.scaled(t))
        fr = self.friction
        return decay * (1 + y / 2), decay * y / fr, -decay * y * fr / 4, decay * (1 - y / 2)

    def covariance(self, t, a=0.0, c=0.0):
        """Entries (xx, xv, vv) from a start of variances a, c, and the determinant."""
        y, fr = self.scaled(t), self.friction
        m, rest = jnp.exp(-y), tail(y)
        xx, xv, vv = m * rest, m * y**2 * fr / 4, m * fr**2 / 4 * (2 * y + rest)
        own = m**2 * fr**2 / 4 * (2 * y * rest + rest**2 - y**4 / 4)
        p, q, r, s = self.transition(t)
        across = lambda first, second: vv * first**2 - 2 * xv * first * second + xx * second**2
        determinant = own + a * across(p, r) + c * across(q, s) + a * c * m**2  # e^{−y} is the matrix's determinant
        return xx + a * p**2 + c * q**2, xv + a * p * r + c * q * s, vv + a * r**2 + c * s**2, determinant

    def mean(self, u, t):
        p, q, r, s = self.transition(t)
        return jnp.stack([p * u[0] + q * u[1], r * u[0] + s * u[1]])

    def factor(self, t, a=0.0, c=0.0):
        """Cholesky's L of the covariance: (L₁₁, L₂₁, L₂₂)."""
        xx, xv, _, determinant = self.covariance(t, a, c)
        return jnp.sqrt(xx), xv / jnp.sqrt(xx), jnp.sqrt(determinant / xx)

    def drift(self, x, t):
        x, v = x
        return self.beta * jnp.stack([v / self.mass, -x - self.friction / self.mass * v])

    def diffusion(self, t):
        return jnp.sqrt(2 * self.friction * self.beta) * jnp.ones_like(t)

    def spread(self, t, x):
        return jnp.array([0.0, 1.0]).reshape(2, *[1] * (x.ndim - 1)) * self.diffusion(t)

    def prior(self, key: Key, shape: tuple[int, ...]) -> jax.Array:
        """Draws (n, 2, …)."""
        if len(shape) < 3 or shape[1] != 2:
            raise ValueError(f"CLD: a draw has shape {shape[1:]}; it must be (2, …), positions and velocities.")
        return jax.random.normal(key, shape) * _pair(1.0, jnp.sqrt(self.mass), len(shape))

    def prior_log_prob(self, x) -> Scalar:
        z = x / _pair(1.0, jnp.sqrt(self.mass), x.ndim + 1)[0]
        return -0.5 * jnp.sum(z**2) - x.size * (0.5 * math.log(2 * math.pi) + 0.25 * jnp.log(self.mass))

    def denoise(self, score, x, t):
        """An Euler step of the reverse SDE to time 0, without noise."""
        drift = self.drift(x, t) - self.spread(t, x) ** 2 * score(x, t)
        return x - t * drift

    def growth(self, t, size: int):
        return -0.5 * size * self.scaled(t)  # ∇·f = −Γ/M β for each velocity, and Γ/M = 4/Γ


def _pair(first, second, ndim: int):
    """(1, 2, 1, …), to multiply positions and velocities of (n, 2, …)."""
    return jnp.stack([jnp.asarray(first), jnp.asarray(second)]).reshape(1, 2, *[1] * (ndim - 2))


@record
class VelocityScore:
    """A network as the score of CLD: (u, t) → (0, ∇_v log p_t(u)).

    process: CLD.
    program: the network without its arrays, called as net(u as one array, t); it says ε_v, in the shape of x.
    position: its arrays.
    mixed: whether it says only what is missing from the score of N(0, data_scale²) data.
    data_scale: the standard deviation of the data.
    """

    process: Any
    program: Any = static()
    position: Any = None
    mixed: bool = static(default=True)
    data_scale: float = positive(default=1.0)

    def noise(self, u, t):
        """ε̂_v. The network sees x and v joined along their first axis."""
        c = self.process.gamma * self.process.mass
        said = applied(self.program, self.position, jnp.concatenate([u[0], u[1]]), self.process.clock(t))
        if not self.mixed:
            return said
        vv = self.process.covariance(t, self.data_scale**2, c)[2]
        return said + self.process.factor(t, 0.0, c)[2] * u[1] / vv

    def __call__(self, u, t):
        last = self.process.factor(t, 0.0, self.process.gamma * self.process.mass)[2]
        return jnp.stack([jnp.zeros_like(u[0]), -self.noise(u, t) / last])


@record
class HSM:
    """Hybrid score matching: |ε_v − ε̂_v|²/d at times uniform on [0, 1], one number a row of x.

    process: CLD.
    program: the network without its arrays, called as net(u as one array, t).
    mixed: whether it says only what is missing from the score of N(0, data_scale²) data.
    data_scale: the standard deviation of the data.
    """

    process: Any
    program: Any = static()
    mixed: bool = static(default=True)
    data_scale: float = positive(default=1.0)

    def score(self, position: PyTree) -> VelocityScore:
        return VelocityScore(self.process, self.program, position, self.mixed, self.data_scale)

    def __call__(self, key: Key, position: PyTree, rows) -> jax.Array:
        k_time, k_noise = jax.random.split(key)
        t = TRAINED + (self.process.end - TRAINED) * stratified(k_time, rows.shape[0])
        e = jax.random.normal(k_noise, (rows.shape[0], 2, *rows.shape[1:]))
        score = self.score(position)

        def one(x, e, t):
            a, b, c = self.process.factor(t, 0.0, self.process.gamma * self.process.mass)
            u = self.process.mean(jnp.stack([x, jnp.zeros_like(x)]), t) + jnp.stack([a * e[0], b * e[0] + c * e[1]])
            return jnp.mean((score.noise(u, t) - e[1]) ** 2)

        return jax.vmap(one)(rows, e, t)


@record
class SSCS(Sampler):
    """Symmetric splitting of the reverse SDE of CLD: its linear part exact, the rest by Euler steps.

    steps: how many.
    spacing: of the times: "quadratic" is finer near the data.
    denoise: whether a last step without noise leads from `cut` to 0.
    """

    steps: int = static(default=100)
    spacing: Spacing = static(default="quadratic")
    denoise: bool = static(default=True)
    rho = RHO

    def draw(self, key, process, score, x, t):
        words, wrap = noise.words(jax.random.split(key, (t.shape[0] - 1, 2)))
        turn = jnp.array([1.0, -1.0]).reshape(2, *[1] * (x.ndim - 1))

        def linear(word, u, h):
            """The reverse SDE with the score at rest: the forward one with velocities turned round."""
            e = jax.random.normal(wrap(word), u.shape)
            a, b, c = process.factor(h)
            return turn * (process.mean(turn * u, h) + jnp.stack([a * e[0], b * e[0] + c * e[1]]))

        def step(u, now):
            t, after, words = now
            h = t - after
            u = linear(words[0], u, h / 2)
            rest = score(u, t - h / 2)[1] + u[1] / process.mass
            u = u.at[1].add(2 * process.friction * process.beta * h * rest)
            return linear(words[1], u, h / 2), None

        x, _ = lax.scan(step, x, (t[:-1], t[1:], words))
        return process.denoise(score, x, t[-1]) if self.denoise else x


def log_prob_bound(key: Key, process: CLD, score, x, **how) -> LogProb:
    """A lower bound of log p(x), of rows x (n, …): E log p(x, v) + the entropy of v, with one v a row.

    Any law of v gives a bound; here it is that of velocities at `cut`, where the density is taken.
    """
    k_velocity, k_probe = jax.random.split(key)
    variance = process.covariance(process.cut, 0.0, process.gamma * process.mass)[2]
    v = jnp.sqrt(variance) * jax.random.normal(k_velocity, x.shape)
    found = log_prob(k_probe, process, score, jnp.stack([x, v], axis=1), **how)
    entropy = 0.5 * x[0].size * (1 + jnp.log(2 * math.pi * variance))
    return found._replace(value=found.value + entropy)
