"""Bayesian computation for deep learning, in JAX."""

__version__ = "0.1.0"
