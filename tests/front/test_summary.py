"""`posterior.summary()`: the numbers of a posterior in a frame, with weights, without chains that diverged."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import langevin as lv
from langevin.core.posterior import Posterior
from langevin.core.provenance import Provenance
from langevin.core.types import Info
from langevin.diagnostics import ess, mcse, rhat
from langevin.report.summary import COLUMNS

CHAINS, DRAWS = 4, 250


def made(draws, log_weight=None, ok=None):
    """A posterior of these draws; nothing is sampled."""
    shape = jax.tree.leaves(draws)[0].shape[:2]
    zero = np.zeros(shape, np.float32)
    weight = zero if log_weight is None else log_weight
    info = Info(zero, weight, zero + 1, zero, zero + 1, zero, np.ones(shape, bool) if ok is None else ok)
    return Posterior(draws, info, None, lv.SGLD(0.1), Provenance())


@pytest.fixture(scope="module")
def draws():
    random = np.random.default_rng(0)
    scale = np.array([0.1, 1.0, 30.0])
    return dict(b=random.normal(3, 1, (CHAINS, DRAWS)), w=random.normal(size=(CHAINS, DRAWS, 3)) * scale)


def test_rows_are_numbers_and_columns_what_they_are_worth(draws):
    frame = made(draws).summary()
    assert list(frame.index) == ["b", "w[0]", "w[1]", "w[2]"]
    assert tuple(frame.columns) == COLUMNS
    for column, found in dict(
        mean=draws["w"].mean((0, 1)),
        sd=draws["w"].reshape(-1, 3).std(0, ddof=1),
        q5=np.quantile(draws["w"], 0.05, axis=(0, 1)),
        q95=np.quantile(draws["w"], 0.95, axis=(0, 1)),
        mcse=mcse(draws["w"]),
        ess_bulk=ess(draws["w"]),
        ess_tail=ess(draws["w"], "tail"),
        rhat=rhat(draws["w"]),
    ).items():
        np.testing.assert_allclose(frame.loc["w[0]":, column], found, rtol=1e-9)


def test_fn_says_of_what(draws):
    frame = made(draws).summary(lambda p: {"square": p["b"] ** 2})
    assert list(frame.index) == ["square"]
    assert frame.loc["square", "mean"] == pytest.approx((draws["b"] ** 2).mean(), rel=1e-5)
    assert list(made(draws["b"]).summary().index) == ["x"]


def test_chains_that_diverged_and_draws_not_collected_are_left_out(draws):
    x, ok, weight = draws["b"].copy(), np.ones((CHAINS, DRAWS), bool), np.zeros((CHAINS, DRAWS))
    x[1, 50:], ok[1, 50:] = np.nan, False
    weight[:, :100] = -np.inf
    row = made(x, weight, ok).summary().loc["x"]
    kept = x[[0, 2, 3], 100:]
    assert row["mean"] == pytest.approx(kept.mean())
    assert row["sd"] == pytest.approx(kept.std(ddof=1))
    assert row["q50"] == pytest.approx(np.median(kept))
    assert row["ess_bulk"] == pytest.approx(ess(kept))


def test_weights_are_respected_and_cost_effective_draws():
    """Draws of N(0, 2²) weighted to N(1, 1): mean 1, standard deviation 1, quantiles of N(1, 1), and a larger error."""
    x = np.random.default_rng(1).normal(0, 2, (CHAINS, 4000))
    log_weight = -0.5 * (x - 1) ** 2 + x**2 / 8
    row = made(x, log_weight).summary().loc["x"]
    plain = made(x).summary().loc["x"]
    w = np.exp(log_weight) / np.exp(log_weight).sum()
    truth = np.sqrt(np.sum(w**2 * (x - row["mean"]) ** 2))  # the error of a self-normalised estimate
    assert abs(row["mean"] - 1) < 5 * truth
    assert row["mcse"] == pytest.approx(truth, rel=0.5)
    assert row["sd"] == pytest.approx(1, abs=0.05)
    assert [row["q5"], row["q50"], row["q95"]] == pytest.approx([1 - 1.645, 1, 1 + 1.645], abs=0.1)
    assert row["ess_bulk"] < 0.8 * plain["ess_bulk"]


def test_few_draws_have_no_effective_size(draws):
    row = made(draws["b"][:, :3]).summary().loc["x"]
    assert np.isnan(row["rhat"])
    assert np.isfinite(row["mean"])


def test_a_large_position_needs_fn_or_a_limit(draws):
    large = made(np.zeros((2, 5, 101)))
    with pytest.raises(ValueError, match="more than 100 numbers; pass fn to say what of it, or a larger limit"):
        large.summary()
    assert len(large.summary(limit=101)) == 101
    assert len(large.summary(lambda x: jnp.sum(x))) == 1


def test_no_draws_that_carry_weight_are_refused(draws):
    lost = dataclasses.replace(
        made(draws["b"]), info=made(draws["b"]).info._replace(ok=np.zeros((CHAINS, DRAWS), bool))
    )
    with pytest.raises(ValueError, match="every chain diverged or none was collected"):
        lost.summary()
