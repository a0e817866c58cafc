"""A small regression whose expectations under annealing are known exactly (`langevin_lab.oracle`)."""

import jax.numpy as jnp
import numpy as np
from langevin_lab import oracle
from langevin_lab.experiments._regression import Linear, standard_normal

from langevin.evidence.base import Normal
from langevin.targets.bayes import Bayes

N, D, BATCH = 400, 3, 20


def problem(n=N, d=D, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) * np.array([0.2, 0.3, 0.4])[:d]
    return oracle.Regression(X, X @ random.normal(size=d) + random.normal(size=n))


def bayes(known, batch=None, log_variance=0.0):
    data = jnp.asarray(known.X, jnp.float32), jnp.asarray(known.y, jnp.float32)
    return Bayes(standard_normal, Linear(log_variance), data, batch)


KNOWN = problem()
BASE = Normal(jnp.zeros(D))


def z(values, truth):
    values = np.asarray(values, np.float64)
    return (values.mean() - truth) / (values.std(ddof=1) / np.sqrt(len(values)))
