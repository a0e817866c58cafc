"""Factored regressions, their Zig-Zag processes, and the closed form of the Gaussian one."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import noise
from langevin.evidence.minibatch.factored import find_anchor, linear, logistic
from langevin.evidence.minibatch.zigzag_process import build_process

N, D, SIGMA, SCALE = 200, 3, 0.7, 0.8
MEAN = (-1.0, 0.5, 0.0)
WIDTH = (0.3, 0.1, 0.2)  # of the columns of x
# all ladders are of one length, all runs of one size: few programs. A coarse ladder spends its rungs near zero
RUNGS, PARTICLES, BATCH = 60, 500, 10
FINE = jnp.linspace(0, 1, RUNGS + 1) ** 2
COARSE = jnp.concatenate([jnp.linspace(0, 1e-6, RUNGS - 6)[:-1], jnp.linspace(0, 1, 9)[1:] ** 2])
SIZE = dict(particles=PARTICLES, batch=BATCH)


def table(seed):
    k_x, k_w, k_y = jax.random.split(noise.key(seed, impl="hash"), 3)
    x = jax.random.normal(k_x, (N, D)) * jnp.array(WIDTH)[None]
    return x, x @ (0.5 + jax.random.normal(k_w, (D,))), k_y


@cache
def gaussian():
    x, eta, key = table(1)
    return linear(x, eta + SIGMA * jax.random.normal(key, (N,)), sigma=SIGMA, mean=jnp.array(MEAN), scale=SCALE)


@cache
def bernoulli():
    x, eta, key = table(2)
    return logistic(4 * x, jax.random.bernoulli(key, jax.nn.sigmoid(4 * eta)), scale=SCALE)


@cache
def made(target=gaussian, choice="weighted"):
    return build_process(target(), find_anchor(target()), choice=choice)


def truth(target, beta=1.0):
    """Mean, covariance and log normaliser of prior · likelihood^β, in double precision."""
    x, y = (np.asarray(target.data[k], float) for k in "xy")
    m, s = np.asarray(target.base.mean, float), np.asarray(target.base.scale, float)
    precision = np.diag(s**-2) + beta * x.T @ x / SIGMA**2
    cov = np.linalg.inv(precision)
    mean = cov @ (m / s**2 + beta * x.T @ y / SIGMA**2)
    r = y - x @ m
    if beta != 1.0:
        return mean, cov, None
    full = SIGMA**2 * np.eye(len(y)) + (x * s**2) @ x.T
    return mean, cov, -0.5 * (r @ np.linalg.solve(full, r) + np.linalg.slogdet(2 * np.pi * full)[1])
