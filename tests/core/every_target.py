"""One of every target in the package, and small ones to make mistakes with."""

import jax.numpy as jnp

from langevin.core.target import Density


def log_prior(position):
    return -0.5 * jnp.sum(position**2)


def log_likelihood(position, data):
    return -0.5 * (data - jnp.sum(position)) ** 2


PLAIN = Density(log_prior)
