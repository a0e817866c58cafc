"""Gaussians with gradient noise that the tests of SMILE share."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from langevin_lab.experiments import smile_gaussian as gaussians

from langevin.baselines.published_smile import PublishedSMILE

together = pytest.mark.xdist_group("whiten")  # one compiled program


D, R = gaussians.D, gaussians.ANISOTROPIC


def orthonormal(d, k, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, k)))[0]


def modelled(gradient_noise, spikes, U):
    """R as the kernel takes it."""
    off = np.eye(len(U)) - U @ U.T
    return off @ np.diag(gradient_noise) @ off + U @ np.diag(spikes) @ U.T


def dense(metric, d):
    """S as a matrix, from its columns."""
    return np.asarray(jax.vmap(metric.root)(jnp.eye(d)), np.float64).T


def published(**how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PublishedSMILE(**how)
