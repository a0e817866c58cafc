"""Reference models: densities against NumPy and SciPy, trusted draws against posteriordb's means, and their score."""

import numpy as np
import pytest
from langevin_lab.benchmarks import references as bench
from langevin_lab.references import data, models, trusted
from langevin_lab.references.posteriordb import MEANS
from langevin_lab.references.score import score
from scipy import special, stats
from scipy.integrate import solve_ivp

NAMES = list(models())
normal = lambda x, mean=0.0, scale=1.0: stats.norm.logpdf(x, mean, scale).sum()


def schools(u, *, centered):
    y, sigma = data.SCHOOLS
    tau = np.exp(u[9])
    theta = u[:8] if centered else u[8] + tau * u[:8]
    own = normal(u[:8], u[8], tau) if centered else normal(u[:8])
    prior = normal(u[8], 0, 5) + stats.cauchy.logpdf(tau, 0, 5) + u[9]
    return prior + own + normal(y, theta, sigma)


def lynx(u):
    theta, z, sigma = np.exp(u[:4]), np.exp(u[4:6]), np.exp(u[6:])
    rates = lambda t, z: [(theta[0] - theta[1] * z[1]) * z[0], (theta[3] * z[0] - theta[2]) * z[1]]
    path = solve_ivp(rates, (0, 20), z, t_eval=np.arange(21), rtol=1e-10, atol=1e-10).y.T
    prior = normal(theta[[0, 2]], 1, 0.5) + normal(theta[[1, 3]], 0.05, 0.05) + u[:4].sum()
    # log-normal densities of σ and z, with the volume of the logarithm, are normal densities of their logarithms
    return (
        prior + normal(u[6:], -1, 1) + normal(u[4:6], np.log(10), 1) + normal(np.log(data.LYNX[0]), np.log(path), sigma)
    )


def mesquite(u):
    x, y = data.mesquite()
    return normal(y, x @ u[:6], np.exp(u[6])) + u[6]


def cancer(u):
    x, sign = data.breast_cancer()
    return normal(u) + np.log(special.expit(sign * (x @ u))).sum()


def diabetes(u):
    x, y = data.diabetes()
    tau, sigma = np.exp(u[-2:])
    prior = normal(u[0]) + normal(u[1:-2], 0, tau) + normal(np.array([tau, sigma])) + u[-2:].sum()
    return prior + normal(y, x @ u[:-2], sigma)


def wine(u):
    x, y = data.wine()
    out = special.log_softmax(x @ u.reshape(-1, 3), axis=1)
    return normal(u) + out[np.arange(len(y)), y].sum()


def process(u):
    x, k = data.COUNTS
    rho, alpha = np.exp(u[:2])
    cov = alpha**2 * np.exp(-0.5 * np.subtract.outer(x, x) ** 2 / rho**2) + 1e-4 * np.eye(len(x))
    f = np.linalg.cholesky(cov) @ u[2:]
    prior = stats.gamma.logpdf(rho, 25, scale=1 / 4) + normal(alpha, 0, 2) + u[0] + u[1] + normal(u[2:])
    return prior + stats.poisson.logpmf(k, np.exp(f)).sum()


def volatility(u):
    (y,), phi, sigma = data.returns(), np.tanh(u[1]), np.exp(u[2])
    h = [u[3] / np.sqrt(1 - phi**2)]
    for e in u[4:]:
        h.append(phi * h[-1] + e)
    prior = normal(u[0], -10, 2) + np.log(1 - phi**2) + normal(sigma, 0, 0.5) + u[2] + normal(u[3:])
    return prior + normal(y, 0, np.exp((u[0] + sigma * np.array(h)) / 2))


def funnel(u):
    return normal(u[0], 0, 3) + normal(u[1:], 0, np.exp(u[0] / 2))


PLAIN = {
    "eight_schools-eight_schools_noncentered": lambda u: schools(u, centered=False),
    "eight_schools-eight_schools_centered": lambda u: schools(u, centered=True),
    "hudson_lynx_hare-lotka_volterra": lynx,
    "mesquite-logmesquite_logvash": mesquite,
    "gp_pois_regr-gp_pois_regr": process,
    "breast_cancer-logistic": cancer,
    "diabetes-shrinkage": diabetes,
    "wine-softmax": wine,
    "stochastic_volatility": volatility,
    "funnel": funnel,
}


@pytest.mark.parametrize("name", NAMES)
def test_log_density_is_that_of_scipy(name):
    """Up to a constant: differences between three points and the guess."""
    model, rng = models()[name], np.random.default_rng(0)
    points = [model.guess, *(model.guess + 0.1 * rng.standard_normal((3, model.d)))]
    ours = np.array([float(model.target.log_density(np.asarray(u, np.float32))) for u in points])
    plain = np.array([PLAIN[name](np.asarray(u, np.float32).astype(float)) for u in points])
    assert ours[1:] - ours[0] == pytest.approx(plain[1:] - plain[0], rel=1e-3, abs=3e-2)


@pytest.mark.parametrize("name", NAMES)
def test_trusted_draws_load_and_fit_their_model(name):
    model, draws = models()[name], trusted(name)
    assert draws.shape == (10_000, len(model.names))
    assert np.isfinite(draws).all()
    assert model.values(np.asarray(model.guess, np.float32)).shape == (len(model.names),)
    half = draws.reshape(2, 5000, -1)
    z = (half[0].mean(0) - half[1].mean(0)) / (draws.std(0) / np.sqrt(1000))  # chains are stored one after the other
    assert np.abs(z).max() < 5


@pytest.mark.parametrize("name", list(MEANS))
def test_trusted_means_are_those_of_posteriordb(name):
    draws, (mean, error) = trusted(name), map(np.array, MEANS[name])
    own = draws.std(0) / np.sqrt(5000)  # the least ESS of the trusted draws is above 5,000
    assert np.abs((draws.mean(0) - mean) / np.hypot(own, error)).max() < 5


def test_score_of_independent_draws_is_noise_and_of_shifted_draws_is_the_shift():
    rng = np.random.default_rng(0)
    exact, draws = rng.standard_normal((10_000, 5)), rng.standard_normal((8, 1000, 5))
    fine, off = score(draws, exact), score(draws + 0.5, exact)
    assert fine.bias < fine.noise < 0.06
    assert off.bias == pytest.approx(0.5, abs=0.05)


@pytest.mark.slow
def test_every_kernel_is_scored():
    """On the easiest model no exact kernel shows a bias."""
    name = bench.QUICK[0]
    table = {r["kernel"]: r for r in bench.rows(name, models()[name], [*bench.TUNED, *bench.BY_SGLD], 4000, 0)}
    for kernel in ("NUTS", "HMC", "MAMS"):
        assert table[kernel]["bias"] < 2 * table[kernel]["noise"]
    assert all("bias" in row for row in table.values())
