r"""Targets whose truth is known, for tests, audits and benchmarks.

All but the last two have `mean` and `variance` (trees like the position, variances per coordinate) and `exact(key, n)`,
n independent draws with a leading axis. Gaussian, Banana, Funnel and Scales have `latent(position)`, which takes a
draw to d independent N(0, 1), so that one histogram serves all coordinates. `log_z` is the log of the integral of
e^{log_density}:

    Gaussian, Banana, Funnel, Mixture, Rings, Skew, Scales    0: normalised in closed form
    EightSchools                                              −31.3113, by quadrature over τ (the rest is Gaussian)
    logistic                                                  not known; `laplace_truth` estimates it with its own ESS

References
----------
Haario, Saksman & Tamminen (1999), Adaptive proposal distribution for random walk Metropolis algorithm (the banana).
Neal (2003), Slice sampling, §8 (the funnel).
Zhang et al. (2020), Cyclical stochastic gradient MCMC for Bayesian deep learning, §5.1 (25 Gaussians).
Rubin (1981), Estimation in parallel randomized experiments (eight schools).
Magnusson et al. (2024), posteriordb, eight_schools_noncentered (μ 4.4 ± 3.3, τ 3.6 ± 3.2; digits here by quadrature).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.special import logsumexp, ndtr

from langevin.core.record import positive, record, static
from langevin.core.target import Exact
from langevin.core.types import Key, PyTree, Scalar

LOG_2PI = math.log(2.0 * math.pi)


def _normal(x, scale=1.0):
    """Σ log N(x; 0, scale²)."""
    return jnp.sum(-0.5 * (x / scale) ** 2 - jnp.log(scale) - 0.5 * LOG_2PI)


@record
class Gaussian(Exact):
    """N(mean, covariance); the factors are found in float64 when it is built, so build it outside `jit`.

    mean: (d,).
    covariance: (d, d), or (d,) variances of independent coordinates.
    factor: L with L Lᵀ = covariance, found from it.
    whiten: L⁻¹, found from it.
    """

    mean: Any
    covariance: Any
    factor: Any = dataclasses.field(default=None, init=False)
    whiten: Any = dataclasses.field(default=None, init=False)
    log_z = 0.0

    def __post_init__(self):
        covariance = np.asarray(self.covariance, np.float64)
        factor = np.sqrt(covariance) if covariance.ndim == 1 else np.linalg.cholesky(covariance)
        whiten = 1.0 / factor if covariance.ndim == 1 else np.linalg.inv(factor)
        values = {"mean": self.mean, "covariance": covariance, "factor": factor, "whiten": whiten}
        for name, value in values.items():
            object.__setattr__(self, name, jnp.asarray(value, jnp.result_type(float)))

    @classmethod
    def conditioned(cls, d: int, condition: float, *, shape="diagonal", key: Key | None = None, rho: float = 0.9):
        """Mean 0, variances log-spaced around 1 with ratio `condition`; shape "diagonal", "rotated" by a random
        rotation (needs `key`), or "ar1": correlation rho^|i−j| (which adds to the condition number)."""
        variance = condition ** np.linspace(-0.5, 0.5, d)
        if shape == "diagonal":
            return cls(np.zeros(d), variance)
        if shape == "rotated":
            q = np.asarray(jax.random.orthogonal(key, d), np.float64)
            turned = (q * variance) @ q.T
            return cls(np.zeros(d), 0.5 * (turned + turned.T))
        if shape != "ar1":
            raise ValueError(f"Gaussian.conditioned: shape is {shape!r}; it must be 'diagonal', 'rotated' or 'ar1'.")
        apart = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
        scale = np.sqrt(variance)
        return cls(np.zeros(d), np.outer(scale, scale) * rho**apart)

    @property
    def independent(self) -> bool:
        return self.covariance.ndim == 1

    @property
    def cov(self) -> jax.Array:
        return jnp.diag(self.covariance) if self.covariance.ndim == 1 else self.covariance

    @property
    def variance(self) -> jax.Array:
        return self.covariance if self.covariance.ndim == 1 else jnp.diagonal(self.covariance)

    def log_density(self, position):
        x = position - self.mean
        if self.whiten.ndim == 1:
            return _normal(self.whiten * x) + jnp.sum(jnp.log(self.whiten))
        return _normal(self.whiten @ x) + jnp.sum(jnp.log(jnp.diagonal(self.whiten)))

    def exact(self, key: Key, n: int) -> jax.Array:
        z = jax.random.normal(key, (n, self.mean.shape[0]))
        return self.mean[None] + (z * self.factor[None] if self.factor.ndim == 1 else z @ self.factor.T)

    def latent(self, position) -> jax.Array:
        """L⁻¹ (x − mean): independent N(0, 1)."""
        x = position - self.mean
        return self.whiten * x if self.whiten.ndim == 1 else self.whiten @ x


@record
class Banana(Exact):
    """Twisted Gaussians in d/2 independent planes: x₁ ~ N(0, scale²), x₂ ~ N(curvature (x₁² − scale²), 1).

    curvature: b, how bent.
    scale: the standard deviation of x₁.
    d: dimension, even; a position is (d,), plane after plane.
    """

    curvature: Any = 0.1
    scale: Any = positive(default=3.0)
    d: int = static(default=2)
    log_z = 0.0

    def __post_init__(self):
        if self.d < 2 or self.d % 2:
            raise ValueError(f"Banana: d is {self.d}; it must be even, for it is made of planes.")

    @property
    def mean(self) -> jax.Array:
        return jnp.zeros(self.d)

    @property
    def variance(self) -> jax.Array:
        plane = jnp.stack([self.scale**2, 1.0 + 2.0 * self.curvature**2 * self.scale**4])
        return jnp.tile(plane, self.d // 2)

    @property
    def cov(self) -> jax.Array:
        return jnp.diag(self.variance)

    def log_density(self, position):
        first, second = position[0::2], position[1::2]
        return _normal(first, self.scale) + _normal(second - self.curvature * (first**2 - self.scale**2))

    def exact(self, key: Key, n: int) -> jax.Array:
        z = jax.random.normal(key, (n, self.d // 2, 2))
        first = self.scale * z[..., 0]
        second = z[..., 1] + self.curvature * (first**2 - self.scale**2)
        return jnp.stack([first, second], axis=-1).reshape(n, self.d)

    def latent(self, position) -> jax.Array:
        """The plane unbent: independent N(0, 1)."""
        first, second = position[0::2], position[1::2]
        straight = second - self.curvature * (first**2 - self.scale**2)
        return jnp.stack([first / self.scale, straight], axis=-1).reshape(self.d)


@record
class Funnel(Exact):
    """Neal's funnel: v ~ N(0, scale²), then d − 1 coordinates ~ N(0, e^v); a position is (d,), v first.

    d: dimension.
    scale: the standard deviation of v.
    """

    d: int = static(default=10)
    scale: Any = positive(default=3.0)
    log_z = 0.0

    @property
    def mean(self) -> jax.Array:
        return jnp.zeros(self.d)

    @property
    def variance(self) -> jax.Array:
        return jnp.full(self.d, jnp.exp(0.5 * self.scale**2)).at[0].set(self.scale**2)

    @property
    def cov(self) -> jax.Array:
        return jnp.diag(self.variance)

    def log_density(self, position):
        v, x = position[0], position[1:]
        return _normal(v, self.scale) - 0.5 * jnp.sum(x**2 * jnp.exp(-v) + v + LOG_2PI)

    def exact(self, key: Key, n: int) -> jax.Array:
        z = jax.random.normal(key, (n, self.d))
        v = self.scale * z[:, :1]
        return jnp.concatenate([v, z[:, 1:] * jnp.exp(0.5 * v)], axis=1)

    def latent(self, position) -> jax.Array:
        """v/scale and x e^{−v/2}: independent N(0, 1)."""
        v, x = position[:1], position[1:]
        return jnp.concatenate([v / self.scale, x * jnp.exp(-0.5 * v)])


@record
class Mixture(Exact):
    """A mixture of Gaussians with independent coordinates.

    weights: (k,), of any positive sum.
    means: (k, d).
    scales: (k, d) standard deviations.
    """

    weights: Any
    means: Any
    scales: Any
    log_z = 0.0

    def __post_init__(self):
        weights, means = jnp.asarray(self.weights, float), jnp.asarray(self.means, float)
        if means.ndim != 2 or weights.shape != means.shape[:1] or jnp.shape(self.scales) != means.shape:
            raise ValueError(
                f"Mixture: weights {weights.shape}, means {means.shape}, scales {jnp.shape(self.scales)} do not fit; "
                "they must be (k,), (k, d) and (k, d)."
            )
        values = {"weights": weights / jnp.sum(weights), "means": means, "scales": jnp.asarray(self.scales, float)}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def grid(cls, side: int = 5, spacing: float = 2.0, scale: float = math.sqrt(0.03)):
        """side² equal Gaussians on a square grid in the plane; by default the 25 of the cSGLD paper."""
        line = spacing * (np.arange(side) - 0.5 * (side - 1))
        means = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
        return cls(np.ones(side**2), means, np.full_like(means, scale))

    @property
    def mean(self) -> jax.Array:
        return self.weights @ self.means

    @property
    def cov(self) -> jax.Array:
        apart = self.means - self.mean[None]
        return jnp.diag(self.weights @ self.scales**2) + (apart * self.weights[:, None]).T @ apart

    @property
    def variance(self) -> jax.Array:
        return jnp.diagonal(self.cov)

    def log_density(self, position):
        each = -0.5 * ((position[None] - self.means) / self.scales) ** 2 - jnp.log(self.scales) - 0.5 * LOG_2PI
        return logsumexp(jnp.log(self.weights) + jnp.sum(each, axis=1))

    def exact(self, key: Key, n: int) -> jax.Array:
        k_which, k_noise = jax.random.split(key)
        which = jax.random.categorical(k_which, jnp.log(self.weights), shape=(n,))
        z = jax.random.normal(k_noise, (n, self.means.shape[1]))
        return self.means[which] + self.scales[which] * z


@record
class Rings(Exact):
    """Rings in the plane: p(x) ∝ Σ_k exp(−(|x| − r_k)² / 2 width²).

    The normaliser is the mass of the radial law, closed. Draws invert the radial distribution function, also closed,
    by interpolation between 8192 points: errors about 1e-5 of a width.

    radii: (k,) r_k.
    width: the thickness of a ring.
    """

    radii: Any = dataclasses.field(default_factory=lambda: jnp.array([1.0, 2.5, 4.0]))
    width: Any = positive(default=0.2)
    log_z = 0.0

    def __post_init__(self):
        object.__setattr__(self, "radii", jnp.asarray(self.radii, float))

    def _radial(self):
        """∫ r e^{−(r−r_k)²/2w²} dr and ∫ r³ e^{…} dr over r > 0, each over w √2π, summed over rings."""
        m, w = self.radii, self.width
        a = m / w
        phi, below = jnp.exp(-0.5 * a**2 - 0.5 * LOG_2PI), ndtr(a)
        first = m * below + w * phi
        third = m**3 * below + 3 * m**2 * w * phi + 3 * m * w**2 * (below - a * phi) + w**3 * (a**2 + 2) * phi
        return jnp.sum(first), jnp.sum(third)

    @property
    def mean(self) -> jax.Array:
        return jnp.zeros(2)

    @property
    def variance(self) -> jax.Array:
        first, third = self._radial()
        return jnp.full(2, 0.5 * third / first)

    @property
    def cov(self) -> jax.Array:
        return jnp.diag(self.variance)

    def log_density(self, position):
        square = jnp.sum(position**2)
        away = square > 0
        radius = jnp.where(away, jnp.sqrt(jnp.where(away, square, 1.0)), 0.0)  # no NaN gradient at the centre
        mass = 2 * math.pi * self._radial()[0] * self.width * math.sqrt(2 * math.pi)
        return logsumexp(-0.5 * ((radius - self.radii) / self.width) ** 2) - jnp.log(mass)

    def exact(self, key: Key, n: int) -> jax.Array:
        k_radius, k_angle = jax.random.split(key)
        r = jnp.linspace(0.0, jnp.max(self.radii) + 8.0 * self.width, 8192)[:, None]
        m, w = self.radii[None], self.width
        bell = lambda x: jnp.exp(-0.5 * x**2 - 0.5 * LOG_2PI)
        below = m * (ndtr((r - m) / w) - ndtr(-m / w)) + w * (bell(m / w) - bell((r - m) / w))
        below = jnp.sum(below, axis=1)
        radius = jnp.interp(jax.random.uniform(k_radius, (n,)), below / below[-1], r[:, 0])
        angle = jax.random.uniform(k_angle, (n,), maxval=2 * math.pi)
        return radius[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)


# y = log(e^{E/4} − 1), E ~ Exp(1), has the density 4 e^y (1 + e^y)^−5 and the cumulants ψ⁽ᵏ⁻¹⁾(1) + (−1)ᵏ ψ⁽ᵏ⁻¹⁾(4)
SKEW_1 = -11.0 / 6.0
SKEW_2 = math.pi**2 / 3 - 49.0 / 36.0
SKEW_4 = 2 * math.pi**4 / 15 - 6.0 * (1 + 1 / 16 + 1 / 81)


@record
class Skew(Exact):
    """Independent skewed coordinates of unequal scales: x = mean + scale (y − E y)/sd(y), e^y + 1 Pareto of index 4.

    y is the log of a ratio of gamma variables (shapes 1 and 4): skewness −0.87, kurtosis 4.76. Its gradient is bounded
    and Lipschitz, so that unadjusted kernels are stable on it.

    mean: the mean, {"a": (3,), "b": ()}.
    scale: the standard deviations, in the same shape.
    """

    mean: PyTree = dataclasses.field(
        default_factory=lambda: {"a": jnp.array([0.3, 0.0, -1.0]), "b": jnp.asarray(-0.2, float)}
    )
    scale: PyTree = dataclasses.field(
        default_factory=lambda: {"a": jnp.array([0.5, 1.0, 2.0]), "b": jnp.asarray(0.7, float)}
    )
    log_z = 0.0
    independent = True

    @property
    def variance(self) -> PyTree:
        return jax.tree.map(jnp.square, self.scale)

    @property
    def fourth(self) -> PyTree:
        """E (x − mean)⁴."""
        return jax.tree.map(lambda s: s**4 * (3.0 + SKEW_4 / SKEW_2**2), self.scale)

    def log_density(self, position):
        def one(x, m, s):
            y = SKEW_1 + math.sqrt(SKEW_2) * (x - m) / s
            return jnp.sum(y - 5.0 * jax.nn.softplus(y) + math.log(4.0 * math.sqrt(SKEW_2)) - jnp.log(s))

        return _total(jax.tree.map(one, position, self.mean, self.scale))

    def exact(self, key: Key, n: int) -> PyTree:
        def one(k, m, s):
            # a float32 exponential can be 0, whose logarithm is not a draw
            y = jnp.log(jnp.expm1(0.25 * jnp.maximum(jax.random.exponential(k, (n, *m.shape)), 2.0**-25)))
            return m[None] + s[None] * (y - SKEW_1) / math.sqrt(SKEW_2)

        return jax.tree.map(one, _keys(key, self.mean), self.mean, self.scale)


@record
class Scales(Exact):
    """Independent Gaussian coordinates of scales 0.5 to 2 in a tree, by default of mean 0.

    mean: the mean, {"a": (3,), "b": (2, 2)}.
    scale: the standard deviations, in the same shape.
    """

    mean: PyTree = dataclasses.field(default_factory=lambda: {"a": jnp.zeros(3), "b": jnp.zeros((2, 2))})
    scale: PyTree = dataclasses.field(
        default_factory=lambda: {"a": jnp.array([0.5, 1.0, 2.0]), "b": jnp.array([[0.7, 1.4], [1.2, 0.6]])}
    )
    log_z = 0.0
    independent = True

    @property
    def variance(self) -> PyTree:
        return jax.tree.map(jnp.square, self.scale)

    @property
    def fourth(self) -> PyTree:
        """E (x − mean)⁴."""
        return jax.tree.map(lambda s: 3.0 * s**4, self.scale)

    def log_density(self, position):
        return _total(jax.tree.map(lambda x, m, s: _normal(x - m, s), position, self.mean, self.scale))

    def exact(self, key: Key, n: int) -> PyTree:
        one = lambda k, m, s: m[None] + s[None] * jax.random.normal(k, (n, *m.shape))
        return jax.tree.map(one, _keys(key, self.mean), self.mean, self.scale)

    def latent(self, position) -> jax.Array:
        """(x − mean)/scale of every coordinate: independent N(0, 1)."""
        return ravel_pytree(jax.tree.map(lambda x, m, s: (x - m) / s, position, self.mean, self.scale))[0]


@record
class EightSchools(Exact):
    """Rubin's eight schools, non-centred: y_j ~ N(μ + τ t_j, σ_j²), t_j ~ N(0, 1), μ ~ N(0, 5²), τ ~ Cauchy⁺(5).

    A position is {"mu": (), "log_tau": (), "t": (8,)}. No exact draws; `reference` has the mean and standard deviation
    of μ, τ and log τ by quadrature.

    y: the effects.
    sigma: their standard errors.
    """

    y: Any = dataclasses.field(default_factory=lambda: jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]))
    sigma: Any = dataclasses.field(default_factory=lambda: jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]))
    log_z = -31.311347
    reference = {"mu": (4.396821, 3.317704), "tau": (3.597705, 3.219958), "log_tau": (0.802139, 1.171226)}

    def log_density(self, position):
        mu, log_tau, t = position["mu"], position["log_tau"], position["t"]
        # half-Cauchy(5) of τ and dτ = τ d log τ; log(1 + τ²/25) without overflow
        log_prior = math.log(2 / (5 * math.pi)) + log_tau - jax.nn.softplus(2.0 * (log_tau - math.log(5.0)))
        log_prior = log_prior + _normal(mu, 5.0) + _normal(t)
        return log_prior + _normal(self.y - mu - jnp.exp(log_tau) * t, self.sigma)


def logistic(key: Key, n: int, d: int, *, batch: int | None = None, order: Any = "replacement"):
    """Bayesian logistic regression on synthetic data as Bayes: w ~ N(0, I), x ~ N(0, I), y ~ Bernoulli(σ(x·w)).

    A position is (d,). `laplace_truth(key, target, d)` has its moments.
    """
    from langevin.targets.bayes import Bayes

    k_weight, k_x, k_y = jax.random.split(key, 3)
    weight, x = jax.random.normal(k_weight, (d,)), jax.random.normal(k_x, (n, d))
    y = jax.random.bernoulli(k_y, jax.nn.sigmoid(x @ weight)).astype(x.dtype)
    return Bayes(_log_prior, _log_likelihood, {"x": x, "y": y}, batch, order)


class Truth(NamedTuple):
    """Moments and log_z by importance sampling, and the effective number of draws behind them."""

    mean: jax.Array
    variance: jax.Array
    log_z: Scalar
    ess: Scalar


def laplace_truth(key: Key, target, d: int, n: int = 20_000, inflate: float = 1.3) -> Truth:
    """The moments of a log-concave target on (d,), by importance sampling from its inflated Laplace approximation.

    The standard error of a mean is √(variance / ess); `inflate` widens the proposal, so that no weight is large.
    """
    x, log_w = laplace_draws(key, target, d, n, inflate)
    w = jax.nn.softmax(log_w)
    mean = w @ x
    return Truth(mean, w @ (x - mean[None]) ** 2, logsumexp(log_w) - math.log(n), 1.0 / jnp.sum(w**2))


def laplace_draws(key: Key, target, d: int, n: int, inflate: float = 1.3) -> tuple[jax.Array, jax.Array]:
    """n draws of that Laplace approximation and their log importance weights."""

    def newton(x, _):
        g, h = jax.grad(target.log_density)(x), jax.hessian(target.log_density)(x)
        return x - jnp.linalg.solve(h, g), None

    mode, _ = jax.lax.scan(newton, jnp.zeros(d), None, length=20)
    precision = -jax.hessian(target.log_density)(mode)
    root = jnp.linalg.cholesky(precision / inflate)
    z = jax.random.normal(key, (n, d))
    x = mode[None] + jax.scipy.linalg.solve_triangular(root.T, z.T, lower=False).T
    log_q = jnp.sum(-0.5 * z**2 - 0.5 * LOG_2PI, axis=1) + jnp.sum(jnp.log(jnp.diagonal(root)))
    return x, jax.lax.map(target.log_density, x, batch_size=256) - log_q


def _log_prior(weight):
    return _normal(weight)


def _log_likelihood(weight, data):
    logit = data["x"] @ weight
    return data["y"] * logit - jax.nn.softplus(logit)


def _total(x: PyTree) -> Scalar:
    return sum(jax.tree.leaves(x), jnp.zeros(()))


def _keys(key: Key, like: PyTree) -> PyTree:
    """One key for every leaf."""
    leaves, structure = jax.tree.flatten(like)
    return jax.tree.unflatten(structure, list(jax.random.split(key, len(leaves))))
