"""Runs and posteriors that several files of core's tests share."""

import numpy as np
import pytest
import small_posterior
import stored_run

from langevin.nets.bnn import bnn


@pytest.fixture(scope="module")
def whole():
    """The run of `stored_run` that nothing disturbs, in memory."""
    return stored_run.go()


@pytest.fixture(scope="module")
def memory():
    return small_posterior.draw()


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    return small_posterior.draw(store=tmp_path_factory.mktemp("posterior") / "run")


@pytest.fixture(scope="module")
def net():
    """A small network whose position is an Equinox module, weights before biases."""
    x = np.linspace(-1, 1, 20, dtype=np.float32)[:, None]
    return bnn(small_posterior.build, (x, np.sin(3 * x[:, 0])), noise=0.3, batch=10, order="epoch")
