"""Regressions of counts, of positive numbers and of several targets: every answer is that of their family."""

import jax
import numpy as np
import pandas as pd
import pytest
import walk
from fits import CLOSED, Regressor
from quick import first
from scipy import stats
from scipy.special import logsumexp

import langevin as lv
from langevin.diagnostics.families import mixture
from langevin.estimators.likelihoods import choose_likelihood
from langevin.nets.likelihood import log_negative_binomial, log_poisson
from langevin.report.gather import gather
from langevin.report.page import page
from langevin.report.scores import row_nll, scores

X = np.random.default_rng(0).normal(size=(90, 2))
RATE = np.exp(1.0 + 0.7 * X[:, 0])
TARGETS = dict(
    lognormal=np.exp(np.random.default_rng(1).normal(2 + X[:, 0], 0.3)),
    poisson=np.random.default_rng(2).poisson(RATE).astype(float),
    negative_binomial=np.random.default_rng(3).poisson(RATE * np.random.default_rng(4).gamma(3, 1 / 3, 90)) * 1.0,
)


@pytest.fixture(scope="module", params=first(2, ["negative_binomial", "lognormal", "poisson"]))
def fitted(request):
    y = TARGETS[request.param]
    return Regressor(hidden=(), likelihood=request.param).fit(X, y), y, request.param


def test_a_network_learns_the_family(fitted):
    model, y, _ = fitted
    trivial = np.corrcoef(model.predict(X), np.exp(X[:, 0]))[0, 1]
    assert trivial > 0.8
    assert abs(model.predict(X).mean() / y.mean() - 1) < 0.25


def test_answers_agree_with_the_family(fitted, tmp_path):
    model, y, family = fitted
    said = model.predictive(X)
    law = mixture(family, said)
    mean, std, at = model.predict(X, return_std=True, quantiles=[0.05, 0.95])
    np.testing.assert_allclose(mean, said["mean"].mean(0))
    np.testing.assert_allclose(std**2, (said["std"] ** 2).mean(0) + said["mean"].var(0))
    np.testing.assert_array_equal(at, law.quantiles([0.05, 0.95]).T)
    assert (at >= 0).all()
    assert family == "lognormal" or (at == np.round(at)).all()
    np.testing.assert_allclose(model.log_likelihood(X, y), law.log_prob(y))
    expected = np.mean(logsumexp(law.log_prob(y), axis=0) - np.log(len(law)))
    np.testing.assert_allclose(model.log_score(X, y), expected)
    frame = model.predict_frame(X)
    np.testing.assert_allclose(frame["aleatoric"] ** 2 + frame["epistemic"] ** 2, std**2)
    np.testing.assert_array_equal(frame["outlier"], model.is_outlier(X))
    drawn = model.sample_y(X[:6], 4000, random_state=1)
    assert (drawn >= 0).all()
    assert np.abs((drawn.mean(1) - mean[:6]) / (std[:6] / np.sqrt(4000))).max() < 5
    model.save(tmp_path / "m")
    again = lv.load(tmp_path / "m")
    assert again.likelihood == family
    np.testing.assert_array_equal(again.predict(X, quantiles=[0.1])[1], model.predict(X, quantiles=[0.1])[1])


def test_reports_score_the_family(fitted):
    model, y, family = fitted
    facts = gather(model, X[60:], y[60:], name="t", target="y", train=(X[:60], y[:60]))
    law = mixture(family, model.predictive(X[60:]))
    np.testing.assert_allclose(row_nll(facts, facts.predictions), law.nll(y[60:], each=True))
    found = scores(facts, facts.predictions)
    np.testing.assert_allclose(found["CRPS"], law.crps(y[60:]))
    assert facts.model["likelihood"] == family.replace("_", " ")
    baselines = {name: scores(facts, said) for name, said in facts.baselines.items()}
    assert baselines["linear"]["NLL"] < baselines["trivial"]["NLL"], "the baselines learn, in densities of one kind"
    assert abs(found["NLL"] - baselines["linear"]["NLL"]) < 0.5
    assert 'id="verdict"' in page(facts)


def test_baselines_of_counts_are_calibrated():
    """Log scores compare probabilities: a negative binomial around the means, with the dispersion of the data."""
    from types import SimpleNamespace

    from langevin.estimators.columns import Columns, raw_columns
    from langevin.report.baselines import fit_baselines

    frame = walk.counts(1500)
    rows, y = frame.drop(columns="rentals"), frame["rentals"].to_numpy(float)
    model = SimpleNamespace(
        task="regression", likelihood="poisson", columns_=Columns.fit(raw_columns(rows), np.ones(1500))
    )
    found = fit_baselines(model, rows[:1000], y[:1000], rows[1000:])
    nll = {name: said.mixture().nll(y[1000:]) for name, said in found.items()}
    assert nll["boosting"] < nll["trivial"] - 0.2
    assert 0.2 < found["boosting"].dispersion[0, 0] < 0.6  # 0.3 in truth
    pit = found["boosting"].mixture().pit(y[1000:])
    assert stats.kstest(pit, "uniform").pvalue > 1e-3


def test_log_likelihoods_are_scipys():
    y = np.array([0.0, 1.0, 5.0, 29.0, 31.0, 400.0, 1e5])
    for mean, alpha in [(3.0, 0.5), (200.0, 0.05), (9e4, 2.0)]:
        found = log_negative_binomial(y.astype("float32"), np.float32(np.log(mean)), np.float32(np.log(alpha)))
        expected = stats.nbinom(1 / alpha, 1 / (1 + mean * alpha)).logpmf(y)
        np.testing.assert_allclose(found, expected, rtol=3e-4, atol=3e-3)
    np.testing.assert_allclose(
        log_poisson(y[:6].astype("float32"), np.log(3.0)), stats.poisson(3).logpmf(y[:6]), rtol=1e-4
    )


@pytest.mark.parametrize("likelihood", first(1, ["lognormal", "poisson"]))
def test_evidence_is_in_one_unit(likelihood):
    """At one position the log likelihood is the log density of y in units of its standard deviation."""
    y = TARGETS[likelihood]
    model = Regressor(likelihood=likelihood, hidden=())
    target, base = model.target(X, y)
    place = jax.tree.map(lambda u: u[0], base.exact(lv.key(0), 1))
    own = Regressor(likelihood=likelihood, hidden=())
    raw, numbers, weight = own._table(X, y, None)
    scaled = own._targets(numbers, weight)
    from langevin.estimators.columns import Columns

    net = own._model(Columns.fit(raw, weight).encoded(raw), scaled)
    said = own._unit({k: np.asarray(v)[None] for k, v in net.predict(place, net.target.data[0]).items()})
    expected = mixture(likelihood, said).log_prob(numbers).sum() + len(y) * np.log(np.std(y))
    found = float(target.log_density(place)) - float(base.log_density(place))
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_what_a_likelihood_cannot_have_is_refused():
    for likelihood, y, words in [
        ("lognormal", np.r_[1.0, 0.0, 2.0], "needs numbers above 0"),
        ("poisson", np.r_[1.0, 1.5, 2.0], "needs whole numbers from 0 up"),
        ("negative_binomial", np.r_[1.0, -1.0, 2.0], "needs whole numbers from 0 up"),
        ("cauchy", np.r_[1.0, -1.0, 2.0], "must be one of gaussian, lognormal, poisson, negative_binomial"),
    ]:
        with pytest.raises(ValueError, match=words):
            Regressor(likelihood=likelihood).fit(X[:3], y)


def test_the_likelihood_is_guessed_with_a_note():
    assert choose_likelihood(walk.houses()["price"])[0] == "lognormal"
    name, note = choose_likelihood(walk.counts()["rentals"])
    assert name == "negative_binomial"
    assert "--likelihood poisson or gaussian" in note
    random = np.random.default_rng(0)
    for y in (
        random.normal(size=300),
        random.integers(3, 9, 300),  # marks
        random.integers(1950, 2020, 300),  # years
        np.clip(np.round(random.normal(75, 12, 300)), 0, 100),  # scores of an exam
        np.round(np.exp(random.normal(0, 0.1, 300)), 2),
    ):
        assert choose_likelihood(y) == ("gaussian", "")
    assert choose_likelihood(lv_diabetes())[0] == "gaussian"


def lv_diabetes():
    from langevin.data.tables import read

    return read("diabetes").y


def test_conformal_intervals_of_counts_are_whole_and_not_negative():
    y = TARGETS["poisson"]
    model = lv.Conformal(Regressor(hidden=(), likelihood="poisson"), random_state=0).fit(X, y)
    low, high = model.predict_interval(X).T
    assert (low >= 0).all()
    assert (low == np.round(low)).all()
    assert (high == np.round(high)).all()
    assert np.mean((low <= y) & (y <= high)) > 0.8


# --- several targets ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def several():
    random = np.random.default_rng(0)
    Y = np.c_[X[:, 0] + 0.1 * random.normal(size=90), 100 - 30 * X[:, 1] + 6 * random.normal(size=90)]
    named = pd.DataFrame(Y, columns=["a", "b"])
    return lv.BayesianRegressor(CLOSED, chains=2, hidden=(), random_state=0).fit(X, named), Y


def test_several_targets_are_answered_in_their_units(several):
    model, Y = several
    mean, std, at = model.predict(X, return_std=True, quantiles=[0.1, 0.5, 0.9])
    assert (mean.shape, std.shape, at.shape) == ((90, 2), (90, 2), (90, 2, 3))
    for i in range(2):
        one = lv.BayesianRegressor(CLOSED, chains=2, hidden=(), random_state=0).fit(X, Y[:, i])
        np.testing.assert_allclose(mean[:, i], one.predict(X), rtol=1e-2, atol=1e-2 * Y[:, i].std())
        law = mixture("gaussian", {k: v[:, :, i] for k, v in model.predictive(X).items()})
        np.testing.assert_allclose(at[:, i].T, law.quantiles([0.1, 0.5, 0.9]))
    assert model.score(X, Y) > 0.9
    frame = model.predict_frame(X)
    assert list(frame.columns[:3]) == ["a mean", "a std", "a q0.05"]
    assert list(frame.columns[-2:]) == ["b epistemic", "outlier"]
    assert model.is_outlier(X).shape == (90,)
    assert model.uncertainty(X).total.shape == (90, 2)
    assert model.sample_y(X[:4], 5).shape == (4, 2, 5)
    said, each = model.predictive(X), model.log_likelihood(X, Y)
    expected = sum(mixture("gaussian", {k: v[:, :, i] for k, v in said.items()}).log_prob(Y[:, i]) for i in range(2))
    np.testing.assert_allclose(each, expected)
    np.testing.assert_allclose(model.log_score(X, Y), np.mean(logsumexp(each, axis=0) - np.log(len(each))))


def test_one_of_several_targets_is_seen_alone(several):
    model, Y = several
    said, at = model.predictive(X), model.predict(X, quantiles=[0.1, 0.9])[1]
    for i, name in enumerate("ab"):
        one = model.only(name)
        np.testing.assert_array_equal(one.predictive(X)["std"], said["std"][..., i])
        np.testing.assert_array_equal(one.predict(X, quantiles=[0.1, 0.9])[1], at[:, i])
        np.testing.assert_array_equal(one.followed(X), model.followed(X)[..., i])
        each = mixture("gaussian", {k: v[:, :, i] for k, v in said.items()}).log_prob(Y[:, i])
        np.testing.assert_allclose(one.log_likelihood(X, Y[:, i]), each)
        assert np.isclose(one.threshold_, np.quantile(one.epistemic_, 0.95))
        table = one.permutation_importance(X, Y[:, i])
        assert table.index[0] == i  # a is made of the first column, b of the second
    np.testing.assert_array_equal(model.predict(X).shape, (90, 2))
    with pytest.raises(ValueError, match="no target 'c'; the fit has a, b"):
        model.only("c")


def test_the_disagreement_on_one_target_is_in_its_unit():
    y = np.c_[TARGETS["lognormal"], 100 * TARGETS["lognormal"] ** 2]
    model = Regressor(hidden=(), likelihood="lognormal", holdout=0.2).fit(X, y)
    for i in range(2):
        one = model.only(i)
        apart = one.predictive(X)["log_mean"].std(axis=0)
        np.testing.assert_allclose(one.disagreement(X), apart)
        assert set(np.round(one.epistemic_, 9)) <= set(np.round(apart, 9))
    assert np.isclose(np.quantile(np.sqrt(np.mean(model.epistemic_**2, axis=1)), 0.95), model.threshold_)


def test_a_network_with_several_targets_is_sampled(tmp_path):
    y = np.c_[TARGETS["poisson"], TARGETS["negative_binomial"]]
    model = Regressor(hidden=(), likelihood="poisson").fit(X, y)
    assert model.predict(X).shape == (90, 2)
    assert np.corrcoef(model.predict(X)[:, 0], RATE)[0, 1] > 0.8
    target, base = model.target(X, y)
    place = jax.tree.map(lambda u: u[0], base.exact(lv.key(0), 1))
    assert np.isfinite(target.log_density(place))
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(lv.load(tmp_path / "m").predict(X), model.predict(X))
