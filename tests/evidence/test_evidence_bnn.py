"""The table of `reproduce evidence-bnn`: simulated data are the model's, brackets hold an evidence that is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from langevin_lab.experiments import evidence_bnn as study
from scipy.stats import multivariate_normal

from langevin.data.files import DataError

SCALE = study.Scale((), rungs=500, leapfrog=4, particles=32, sets=1, swarm=256, settle=50)


def inputs(n, d):
    return np.random.default_rng(0).standard_normal((n, d)).astype(np.float32)


def exact(target, sigma):
    """log Z of the network without hidden layers: y is normal, whatever the weights."""
    x, y = (np.asarray(u, np.float64) for u in target.data)
    covariance = x @ x.T / x.shape[1] + 1.0 + sigma**2 * np.eye(len(y))
    return multivariate_normal.logpdf(y, np.zeros(len(y)), covariance)


@pytest.mark.parametrize("sigma", [0.3, None])
def test_simulated_targets_are_those_of_the_model(key, sigma):
    x = inputs(60, 3)
    model = study.network(x, x[:, 0], (4,), sigma)
    k_star, k_data = jax.random.split(key)
    star = jax.tree.map(lambda u: u[0], model.base.exact(k_star, 1))
    y = jax.vmap(lambda k: study.simulated(k, model, star).data[1])(jax.random.split(k_data, 400))
    mean = model.net.predict(star, jnp.asarray(x))["mean"]
    size = sigma or float(jnp.exp(star["log_noise"]))
    off = np.asarray((y - mean[None]) / size, np.float64)
    assert abs(off.mean()) * np.sqrt(off.size) < 5
    assert abs((off**2).mean() - 1) * np.sqrt(off.size / 2) < 5
    kept = study.simulated(jax.random.key(0), model, star)
    np.testing.assert_array_equal(kept.data[0], x)
    assert kept.log_prior is model.net.target.log_prior


def test_the_base_is_the_prior(key):
    x = inputs(20, 3)
    model = study.network(x, x[:, 0], (4,), None)
    draws = model.base.exact(key, 3)
    for one in range(3):
        position = jax.tree.map(lambda u: u[one], draws)
        said, prior = model.base.log_density(position), model.net.target.prior(position)
        assert float(said) == pytest.approx(float(prior), abs=1e-3)


def test_brackets_hold_an_evidence_that_is_known(key):
    """Without a hidden layer: bounds and estimates are as far from the truth as their errors say."""
    x = inputs(40, 2)
    model = study.network(x, x[:, 0] - 0.5, (), 0.3)
    k_data, k_bracket, k_real = jax.random.split(key, 3)
    target, star = study.drawn(k_data, model)
    row = study.bracketed(k_bracket, model, target, star, SCALE)
    truth = exact(target, 0.3)
    assert abs(row["lower"] - truth) < 5 * row["stderr"]
    assert abs(row["upper"] - truth) < 5 * row["stderr_upper"]
    assert max(row["stderr"], row["stderr_upper"]) < 0.2
    assert row["bracket"] == row["upper"] - row["lower"]
    truth = exact(model.net.target, 0.3)
    for row in study.estimated(k_real, model, SCALE):
        assert abs(row["log_z"] - truth) < 5 * row["stderr"], row["method"]
        assert row["stderr"] < 0.3
        assert row["guarantee"] == {"ais": "unbiased-Z", "smc": "consistent", "reverse": "none"}[row["method"]]


def test_chains_settle_in_the_posterior(key):
    """What is said of a few inputs has its mean and variance there, over chains."""
    x = inputs(40, 2)
    model = study.network(x, x[:, 0] - 0.5, (), 0.3)
    k_pilot, k_settle = jax.random.split(key)
    kernel, ends, _ = study._piloted(k_pilot, model, model.net.target, SCALE)
    draws, _ = study._settled(k_settle, kernel, model, ends, SCALE.settle)
    said = np.asarray(jax.vmap(lambda one: model.net.predict(one, jnp.asarray(x[:3]))["mean"])(draws), np.float64)
    rows = np.append(x, np.ones((40, 1)), axis=1).astype(np.float64)
    covariance = np.linalg.inv(rows.T @ rows / 0.09 + np.diag([2.0, 2.0, 1.0]))
    mean = covariance @ rows.T @ (x[:, 0] - 0.5) / 0.09
    z = (said - rows[:3] @ mean) / np.sqrt(np.einsum("ni,ij,nj->n", rows[:3], covariance, rows[:3]))
    assert np.all(np.abs(z.mean(0)) * np.sqrt(len(z)) < 5)
    assert np.all(np.abs((z**2).mean(0) - 1) * np.sqrt(len(z) / 2) < 5)


def rows(brackets):
    ways = dict(ais=-10.0, smc=-9.5, reverse=-9.0)
    for case, found in brackets.items():
        for i, bracket in enumerate(found):
            bounds = dict(lower=0.0, upper=bracket, stderr=0.1, stderr_upper=0.2, ess=5.0)
            yield dict(case=case, data=f"simulated {i + 1}", method="bdmc", bracket=bracket, **bounds)
        for method, log_z in ways.items():
            how = dict(stderr=0.3, ess=4.0, guarantee="none")
            yield dict(case=case, data="real", method=method, log_z=log_z, **how)


def test_figures_are_the_largest_and_the_mean(tmp_path):
    table = list(rows({"boston": [0.5, -1.5], "yacht_learned": [0.2]}))
    figures = study._figures(table)
    assert figures["bracket_boston"] == 1.5
    assert figures["bracket_mean_boston"] == -0.5
    assert figures["log_z_boston_smc"] == -9.5
    assert figures["stderr_yacht_learned_ais"] == 0.3
    assert figures["apart_boston"] == 1.0
    assert study._bars(table) == {"bracket_boston": "≤ 2", "bracket_yacht_learned": "≤ 2"}
    study.draw(table, str(tmp_path / "figure.png"))
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_cases_are_those_of_the_tables():
    assert [c.name for c in study._cases(("boston", "yacht"), learned=True)] == ["boston", "yacht", "yacht_learned"]
    assert study._cases(("wine",), learned=True) == [study.Case("wine", "wine", study.USUAL)]


def test_absent_data_are_told(monkeypatch):
    monkeypatch.delenv("LANGEVIN_DATA", raising=False)
    with pytest.raises(DataError, match="LANGEVIN_DATA"):
        study.run("quick", 0)
