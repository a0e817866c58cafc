"""Strict JAX for every test: key reuse is an error, silent rank promotion is an error, warnings are errors."""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")

import zlib

import jax
import pytest

jax.config.update("jax_debug_key_reuse", True)
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def key(request):
    """A fixed key of the fast generator, different for every test."""
    from langevin.core import noise

    return noise.key(zlib.crc32(request.node.nodeid.encode()), impl="hash")
