r"""Posteriors whose moments are known by quadrature or by importance sampling.

References
----------
Rubin (1981), Estimation in parallel randomized experiments (eight schools).
Magnusson et al. (2024), posteriordb, eight_schools_noncentered (μ 4.4 ± 3.3, τ 3.6 ± 3.2; digits here by quadrature).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from langevin.core.record import record
from langevin.core.smooth import softplus
from langevin.core.target import Exact
from langevin.core.types import Key, Scalar
from langevin.targets.zoo.known import LOG_2PI, normal


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
        log_prior = math.log(2 / (5 * math.pi)) + log_tau - softplus(2.0 * (log_tau - math.log(5.0)))
        log_prior = log_prior + normal(mu, 5.0) + normal(t)
        return log_prior + normal(self.y - mu - jnp.exp(log_tau) * t, self.sigma)


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
    return normal(weight)


def _log_likelihood(weight, data):
    logit = data["x"] @ weight
    return data["y"] * logit - softplus(logit)
