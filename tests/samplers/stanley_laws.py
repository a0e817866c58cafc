"""Densities and draws that the tests of STANLEY share."""

import warnings

import jax.numpy as jnp


def quiet(make):
    """A kernel that warns of its law, made in silence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


def normal(x):
    return -0.5 * jnp.sum(x**2)


def coupled(x):
    """Not Gaussian, every coordinate coupled to every other."""
    return -0.5 * jnp.sum(x**2) - 0.1 * jnp.sum(x**4) - 0.3 * jnp.sum(jnp.sin(x)) ** 2 + 0.2 * x[0] * x[1] * x[2]
