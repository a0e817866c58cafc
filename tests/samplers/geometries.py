"""Metrics and quiet kernels that the tests of adaptive samplers share."""

import warnings

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree


def quiet(make):
    """A kernel that warns of its law, made in silence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


def coupled(position):
    """Not Gaussian, every coordinate coupled to every other."""
    x = ravel_pytree(position)[0]
    return -0.5 * jnp.sum(x**2) - 0.1 * jnp.sum(x**4) - 0.3 * jnp.sum(jnp.sin(x)) ** 2 + 0.2 * x[0] * x[1] * x[2]


def place():
    return {"w": jnp.array([[0.4, -0.8, 1.1], [0.9, 0.2, -0.5]]), "b": jnp.array([0.7, -0.3])}


def normal(x):
    return -0.5 * jnp.sum(x**2)
