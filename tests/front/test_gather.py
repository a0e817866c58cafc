"""From a fitted estimator to the data of a report, whatever the kernel; and how a kernel is named there."""

import copy
import dataclasses
import warnings

import numpy as np
import pytest
from fits import CLOSED

from langevin import BayesianRegressor
from langevin.core import kernel as core
from langevin.report.gather import gather
from langevin.report.page import page
from langevin.samplers.sgld import SGLD

core.named("sgld")  # fills the registry


def built(cls: type):
    """A kernel with its defaults; one that is made of a kernel is made of SGLD."""
    return cls(SGLD()) if issubclass(cls, core.Wrapper) else cls()


@pytest.fixture(scope="module")
def fitted():
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 2))
    model = BayesianRegressor(CLOSED, hidden=(), chains=2, random_state=0)  # nothing is sampled: kernels are put in
    return model.fit(X, X[:, 0]), X


@pytest.mark.parametrize("name", sorted(core.KERNELS))
def test_a_report_is_made_for_every_kernel(fitted, name):
    (model, X), cls = fitted, core.KERNELS[name]
    model = copy.copy(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a kernel of a wrong stationary distribution says so once
        model.posterior_ = dataclasses.replace(model.posterior_, kernel=built(cls))
        data = gather(model, X[:10], X[:10, 0], name="t", target="y")
    assert data.model["kernel"].startswith(cls.__name__)
    assert "array" not in data.model["kernel"]
    assert data.law
    assert cls.__name__ in page(data)


def test_draws_know_their_chain(fitted):
    model, X = fitted
    data = gather(model, X[:10], X[:10, 0], name="t", target="y")
    chains, draws = model.posterior_.info.ok.shape
    np.testing.assert_array_equal(data.chain_of, np.repeat(np.arange(chains), draws))
    own = data.predictions.only(data.chain_of == 1)
    assert len(own) == draws
    np.testing.assert_array_equal(own.mean, data.predictions.mean[draws:])
    assert own.proba is None
    assert not data.drivers  # rows that it was trained on were not given
    assert not data.running


def test_a_chain_that_diverged_is_not_among_them(fitted):
    model = copy.copy(fitted[0])
    info = model.posterior_.info
    lost = np.array(info.ok)
    lost[0] = False
    model.posterior_ = dataclasses.replace(model.posterior_, info=info._replace(ok=lost))
    data = gather(model, fitted[1][:10], fitted[1][:10, 0], name="t", target="y")
    assert set(data.chain_of) == {1}
    assert len(data.predictions) == len(data.chain_of)
