"""Linear regression in three parameters with its log Z and posterior in closed form; noise 1, prior N(0, I)."""

import math

import jax.numpy as jnp
import numpy as np

from langevin.evidence.base import Normal
from langevin.samplers.hmc import HMC
from langevin.targets.bayes import Bayes
from langevin.targets.zoo import Gaussian

LOG_2PI = math.log(2 * math.pi)

N, D = 40, 3
X = 0.5 * np.random.default_rng(1).normal(size=(N, D))
BASE = Normal(jnp.zeros(D))


def log_prior(theta):
    return jnp.sum(-0.5 * theta**2 - 0.5 * LOG_2PI)


def log_likelihood(theta, data):
    return -0.5 * (data["y"] - data["x"] @ theta) ** 2 - 0.5 * LOG_2PI


def regression(y, batch=None):
    return Bayes(log_prior, log_likelihood, {"x": jnp.asarray(X, float), "y": jnp.asarray(y, float)}, batch)


def truth(y):
    """log Z, mean and covariance of the posterior."""
    y, precision = np.asarray(y, np.float64), np.eye(D) + X.T @ X
    mean = np.linalg.solve(precision, X.T @ y)
    log_z = -0.5 * (N * LOG_2PI + np.linalg.slogdet(precision)[1] + y @ y - mean @ X.T @ y)
    return float(log_z), mean, np.linalg.inv(precision)


Y = X @ np.array([1.0, -2.0, 0.5]) + np.random.default_rng(2).normal(size=N)
TARGET = regression(Y)
LOG_Z, MEAN, COV = truth(Y)
POSTERIOR = Gaussian(MEAN, COV)
NEAR = Normal(jnp.asarray(MEAN, float), 0.2)  # within the posterior, whose scales are 0.25 to 0.35
MOVES = HMC(step_size=0.25, n_leapfrog=3, jitter=0.5)


def off(found, log_z=LOG_Z):
    return (float(found.log_z) - log_z) / float(found.stderr)


def unbiased(log_w):
    """The z-score of mean e^W = 1, on the scale where it holds."""
    w = np.exp(np.asarray(log_w, np.float64))
    return (w.mean() - 1) / (w.std(ddof=1) / np.sqrt(len(w)))
