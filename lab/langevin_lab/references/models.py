r"""Ten small posteriors, as densities of free numbers u, with the quantities whose posterior is referred to.

    eight_schools-eight_schools_noncentered  θ_j = μ + τ η_j, μ ~ N(0, 5²), τ ~ half-Cauchy(0, 5)   d = 10
    eight_schools-eight_schools_centered     the same, moved in θ: a funnel                         d = 10
    hudson_lynx_hare-lotka_volterra          hares and lynxes, an ordinary differential equation    d = 8
    mesquite-logmesquite_logvash             log weight of bushes on five logarithms, flat priors   d = 7
    gp_pois_regr-gp_pois_regr                counts, a Gaussian process on the log rate             d = 13
    breast_cancer-logistic                   logistic regression, β ~ N(0, 1)                       d = 31
    diabetes-shrinkage                       linear regression, β ~ N(0, τ²), τ and σ learned       d = 13
    wine-softmax                             three classes, β ~ N(0, 1)                             d = 42
    stochastic_volatility                    100 simulated returns, an AR(1) of log variances       d = 103
    funnel                                   Neal's: v ~ N(0, 3²), nine x ~ N(0, e^v); exact draws  d = 10

The first five are of posteriordb and have its names; `posteriordb.py` holds their means there.

The ordinary differential equation is solved by 5 steps of Runge and Kutta's fourth order a year (posteriordb: adaptive,
tolerance 1e-5), and the Gaussian process has 1e-4 on its diagonal (posteriordb: 1e-10), for float32.

References
----------
Rubin (1981), Estimation in parallel randomized experiments. Neal (2003), Slice sampling, §8.
Magnusson, Bürkner, Vehtari (2021), posteriordb (models, names and the means in `posteriordb.py`).
Kim, Shephard, Chib (1998), Stochastic volatility, eq. 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats

from langevin.core.target import Density
from langevin_lab.references import data

STEPS = 5  # of the differential equation, a year
JITTER = 1e-4


class Model(NamedTuple):
    """target: the log density of u (d,). values: what is referred to, u → (k,). names: of these. guess: a plain u."""

    target: Density
    values: Callable[[jax.Array], jax.Array]
    names: tuple[str, ...]
    guess: np.ndarray

    @property
    def d(self) -> int:
        return len(self.guess)

    def start(self, key: jax.Array, chains: int, spread: float = 0.2) -> jax.Array:
        """Positions around the guess."""
        return jnp.asarray(self.guess, jnp.float32) + spread * jax.random.normal(key, (chains, self.d))


def _numbered(name: str, n: int) -> tuple[str, ...]:
    return tuple(f"{name}[{i + 1}]" for i in range(n))


def _normal(x, mean=0.0, scale=1.0):
    return jnp.sum(stats.norm.logpdf(x, mean, scale))


# --- eight schools --------------------------------------------------------------------------------------------------


def _hyper(mu, log_tau):
    """log prior of μ and log τ; the half-Cauchy's density, and the volume of the logarithm."""
    return stats.norm.logpdf(mu, 0.0, 5.0) + stats.cauchy.logpdf(jnp.exp(log_tau), 0.0, 5.0) + log_tau


def log_noncentered(u, y, sigma):
    eta, mu, log_tau = u[:8], u[8], u[9]
    theta = mu + jnp.exp(log_tau) * eta
    return _hyper(mu, log_tau) + _normal(eta) + _normal(y, theta, sigma)


def log_centered(u, y, sigma):
    theta, mu, log_tau = u[:8], u[8], u[9]
    return _hyper(mu, log_tau) + _normal(theta, mu, jnp.exp(log_tau)) + _normal(y, theta, sigma)


def _schools() -> dict[str, Model]:
    names = (*_numbered("theta", 8), "mu", "tau")
    tau = lambda u: jnp.exp(u[9:])
    free = lambda u: jnp.concatenate([u[8] + tau(u) * u[:8], u[8:9], tau(u)])
    same = lambda u: jnp.concatenate([u[:9], tau(u)])
    guess = np.array([0.0] * 8 + [4.0, 1.0])
    return {
        "eight_schools-eight_schools_noncentered": Model(Density(log_noncentered, data.SCHOOLS), free, names, guess),
        "eight_schools-eight_schools_centered": Model(
            Density(log_centered, data.SCHOOLS), same, names, np.array([4.0] * 9 + [1.0])
        ),
    }


# --- lynx and hare --------------------------------------------------------------------------------------------------


def solve(theta, z):
    """Hares and lynxes at the years 0 to 20, (21, 2)."""
    alpha, beta, gamma, delta = theta
    h = 1.0 / STEPS

    def ahead(z, k, h):
        """z + h · the rates at k: pairs of numbers rather than vectors, which the compiler fuses."""
        return z[0] + h * (alpha - beta * k[1]) * k[0], z[1] + h * (delta * k[0] - gamma) * k[1]

    def year(z, _):
        for _ in range(STEPS):
            second = ahead(z, z, h / 2)
            third = ahead(z, second, h / 2)
            fourth = ahead(z, third, h)
            last = ahead(z, fourth, h)  # z + h k₄
            z = tuple(
                (-z0 + a + 2 * b + c) / 3 + (e - z0) / 6
                for z0, a, b, c, e in zip(z, second, third, fourth, last, strict=True)
            )
        return z, jnp.stack(z)

    return jnp.concatenate([z[None], jax.lax.scan(year, (z[0], z[1]), None, length=20)[1]])


def log_lynx(u, y):
    theta, z, sigma = jnp.exp(u[:4]), jnp.exp(u[4:6]), jnp.exp(u[6:8])
    prior = _normal(theta[::2], 1.0, 0.5) + _normal(theta[1::2], 0.05, 0.05) + jnp.sum(u[:4])
    prior += _normal(u[6:8], -1.0, 1.0) + _normal(u[4:6], jnp.log(10.0), 1.0)
    seen = jnp.log(jnp.maximum(solve(theta, z), 1e-6))
    return prior + _normal(jnp.log(y), seen, sigma[None])


def _lynx() -> dict[str, Model]:
    names = (*_numbered("theta", 4), *_numbered("z_init", 2), *_numbered("sigma", 2))
    guess = np.log([0.5, 0.03, 0.8, 0.025, 30.0, 5.0, 0.3, 0.3])
    return {"hudson_lynx_hare-lotka_volterra": Model(Density(log_lynx, data.LYNX), jnp.exp, names, guess)}


# --- regressions ----------------------------------------------------------------------------------------------------


def log_flat(u, x, y):
    """Flat priors of β and σ."""
    return _normal(y, x @ u[:-1], jnp.exp(u[-1])) + u[-1]


def log_logistic(u, x, sign):
    return _normal(u) - jnp.sum(jax.nn.softplus(-sign * (x @ u)))


def log_shrunk(u, x, y):
    """β ~ N(0, τ²) but the intercept, τ and σ half-normal."""
    beta, scales = u[:-2], jnp.exp(u[-2:])
    prior = _normal(beta[0]) + _normal(beta[1:], 0.0, scales[0]) + _normal(scales) + jnp.sum(u[-2:])
    return prior + _normal(y, x @ beta, scales[1])


def log_softmax(u, x, label):
    out = jax.nn.log_softmax(x @ u.reshape(x.shape[1], 3))
    return _normal(u) + jnp.sum(jnp.take_along_axis(out, label[:, None], axis=1))


def _regressions() -> dict[str, Model]:
    last = lambda n: lambda u: jnp.concatenate([u[:-n], jnp.exp(u[-n:])])
    identity = lambda u: u
    return {
        "mesquite-logmesquite_logvash": Model(
            Density(log_flat, data.mesquite()),
            last(1),
            (*_numbered("beta", 6), "sigma"),
            np.array([5.0] + [0.0] * 5 + [-1.0]),
        ),
        "breast_cancer-logistic": Model(
            Density(log_logistic, data.breast_cancer()), identity, _numbered("beta", 31), np.zeros(31)
        ),
        "diabetes-shrinkage": Model(
            Density(log_shrunk, data.diabetes()),
            last(2),
            (*_numbered("beta", 11), "tau", "sigma"),
            np.array([0.0] * 11 + [-1.0, 0.0]),
        ),
        "wine-softmax": Model(Density(log_softmax, data.wine()), identity, _numbered("beta", 42), np.zeros(42)),
    }


# --- processes ------------------------------------------------------------------------------------------------------


def _rates(u, x):
    """Length scale, amplitude and the log rates of the Gaussian process."""
    rho, alpha = jnp.exp(u[0]), jnp.exp(u[1])
    cov = alpha**2 * jnp.exp(-0.5 * ((x[:, None] - x[None]) / rho) ** 2) + JITTER * jnp.eye(len(x))
    return rho, alpha, jnp.linalg.cholesky(cov) @ u[2:]


def log_process(u, x, k):
    rho, alpha, f = _rates(u, x)
    prior = 24 * u[0] - 4 * rho + _normal(alpha, 0.0, 2.0) + u[0] + u[1] + _normal(u[2:])
    return prior + jnp.sum(k * f - jnp.exp(f))


def _volatility(u):
    """μ, φ, σ and the log variances of an AR(1) that begins in its stationary distribution."""
    mu, phi, sigma = u[0], jnp.tanh(u[1]), jnp.exp(u[2])
    first = u[3] / jnp.sqrt(1 - phi**2)
    step = lambda h, e: (phi * h + e,) * 2
    rest = jax.lax.scan(step, first, u[4:])[1]
    return mu, phi, sigma, mu + sigma * jnp.concatenate([first[None], rest])


def log_volatility(u, y):
    """μ ~ N(−10, 2²), φ uniform on (−1, 1), σ half-normal(0.5)."""
    mu, phi, sigma, h = _volatility(u)
    prior = stats.norm.logpdf(mu, -10.0, 2.0) + jnp.log1p(-(phi**2)) + stats.norm.logpdf(sigma, 0.0, 0.5) + u[2]
    return prior + _normal(u[3:]) + _normal(y, 0.0, jnp.exp(0.5 * h))


def log_funnel(u):
    return stats.norm.logpdf(u[0], 0.0, 3.0) + _normal(u[1:], 0.0, jnp.exp(0.5 * u[0]))


def _processes() -> dict[str, Model]:
    x, _ = data.COUNTS
    process = lambda u: jnp.concatenate([jnp.stack((r := _rates(u, x))[:2]), r[2]])
    volatile = lambda u: jnp.concatenate([jnp.stack((v := _volatility(u))[:3]), v[3]])
    returns = data.returns()
    many = len(returns[0])
    return {
        "gp_pois_regr-gp_pois_regr": Model(
            Density(log_process, data.COUNTS),
            process,
            ("rho", "alpha", *_numbered("f", len(x))),
            np.array([1.7, 1.0] + [0.0] * len(x)),
        ),
        "stochastic_volatility": Model(
            Density(log_volatility, returns),
            volatile,
            ("mu", "phi", "sigma", *_numbered("h", many)),
            np.array([-10.0, 1.5, -1.5] + [0.0] * many),
        ),
        "funnel": Model(Density(log_funnel), lambda u: u, ("v", *_numbered("x", 9)), np.zeros(10)),
    }


def models() -> dict[str, Model]:
    """All ten, by name."""
    return _schools() | _lynx() | _regressions() | _processes()


def exact(name: str, n: int, seed: int = 0) -> Any:
    """Independent draws of the values, where the distribution can be drawn from; None elsewhere."""
    if name != "funnel":
        return None
    random = np.random.default_rng(seed)
    v = 3 * random.standard_normal(n)
    return np.concatenate([v[:, None], np.exp(0.5 * v)[:, None] * random.standard_normal((n, 9))], axis=1)
