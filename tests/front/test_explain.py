"""What drives a prediction: importances and partial dependences, against what is known of simple models."""

import numpy as np
import pandas as pd
import pytest
from fits import CLOSED

from langevin import BayesianRegressor
from langevin.estimators.explain import _thinned
from langevin.report.drivers import COLUMNS, explain


@pytest.fixture(scope="module")
def linear():
    """A linear network: μ = 3 x₀ − x₁ + 0 x₂ of standardised columns, noise of one size."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)) * [1.0, 10.0, 1.0]
    y = 3 * X[:, 0] - X[:, 1] / 10 + rng.normal(size=400)
    return BayesianRegressor(CLOSED, hidden=(), chains=2, random_state=0).fit(X, y), X, y


def test_importance_of_a_linear_model_is_known(linear):
    """Shuffling column j adds β_j² Var(x_j) / σ² to NLL on average, if rows are from the model."""
    model = linear[0]
    new = np.random.default_rng(1).normal(size=(3000, 3)) * [1.0, 10.0, 1.0]
    mean, sd = (u[0] for u in model.predictive(new).values())
    y = mean + sd * np.random.default_rng(2).normal(size=len(mean))
    found = model.permutation_importance(new, y, rows=3000, repeats=3)
    assert list(found.index) == [0, 1, 2]
    slope = [np.polyfit(new[:, j], mean, 1)[0] for j in range(3)]
    for j in range(3):
        expected = np.mean(slope[j] ** 2 * new[:, j].var() / sd**2)
        row = found.loc[j]
        assert abs(row["increase"] - expected) < 5 * row["stderr"] + 0.02 * expected


def test_partial_dependence_of_a_linear_model_is_a_line(linear):
    model, X, _ = linear
    found = model.partial_dependence(X, 1, points=9)
    assert list(found.columns) == ["value", "mean", "low", "high"]
    assert found["value"].is_monotonic_increasing
    line = np.polyfit(found["value"], found["mean"], 1)
    np.testing.assert_allclose(found["mean"], np.polyval(line, found["value"]), atol=1e-4)
    np.testing.assert_allclose(line[0], -0.1, atol=0.03)
    np.testing.assert_allclose(found["low"], found["high"])  # all draws of this plan are equal: no band


def test_columns_are_those_of_the_table(fitted_regressor):
    model, X, y = fitted_regressor
    found = model.permutation_importance(X, y)
    assert set(found.index) == set(X.columns)
    assert found["increase"].is_monotonic_decreasing
    assert set(found.index[:2]) == {"x", "kind"}
    assert tuple(found.loc["same"]) == (0, 0)  # a column that never changes says nothing
    assert found.loc["x", "increase"] > 5 * found.loc["x", "stderr"] > 0
    again = model.permutation_importance(X, y, columns=["x"])
    assert list(again.index) == ["x"]


def test_text_has_a_point_for_each_level(fitted_regressor):
    model, X, _ = fitted_regressor
    found = model.partial_dependence(X, "kind").set_index("value")
    assert list(found.index) == ["a", "b", "c"]  # gaps are no level
    assert (found["low"] <= found["high"]).all()
    assert found.loc["a", "mean"] > found.loc[["b", "c"], "mean"].max() + 3e8
    yes = model.partial_dependence(X, "yes")
    assert list(yes["value"]) == [False, True]
    rising = model.partial_dependence(X, "x", points=7)
    assert len(rising) == 7
    assert np.ptp(rising["mean"]) > 1e9


def test_probabilities_of_all_classes(fitted_classifier):
    model, X, y = fitted_classifier
    found = model.partial_dependence(X, "x", points=5)
    assert list(found["class"][:2]) == ["down", "up"]
    np.testing.assert_allclose(found.groupby("value")["mean"].sum(), 1, atol=1e-5)
    up = found[found["class"] == "up"]["mean"].to_numpy()
    assert up[-1] > 0.9 > 0.1 > up[0]
    assert model.permutation_importance(X, y).index[0] == "x"


def test_few_draws_are_used_and_the_model_stays(fitted_regressor):
    model, X, _ = fitted_regressor
    before = model.predict(X)
    few = _thinned(model, 3)
    assert len(few.predictive(X[:4])["mean"]) == 3
    np.testing.assert_array_equal(model.predict(X), before)


def test_an_unknown_column_is_named(fitted_regressor, linear):
    model, X, y = fitted_regressor
    with pytest.raises(ValueError, match="X has no column 'z': its columns are x, kind"):
        model.permutation_importance(X, y, columns=["z"])
    with pytest.raises(ValueError, match="matrix of 3 columns and has none 7"):
        linear[0].partial_dependence(linear[1], 7)
    with pytest.raises(ValueError, match="has no value in these rows"):
        model.partial_dependence(X.assign(gaps=np.nan), "gaps")


def test_the_report_tries_the_columns_that_predictions_follow():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(150, COLUMNS + 10)), columns=[f"c{i}" for i in range(COLUMNS + 10)])
    y = 5 * X["c70"].to_numpy() + 0.1 * rng.normal(size=150)
    model = BayesianRegressor(CLOSED, hidden=(), chains=2, random_state=0).fit(X, y)
    drivers, curves = explain(model, X, y)
    assert len(drivers) == COLUMNS
    assert drivers[0]["column"] == "c70"
    assert drivers[0]["increase"] > 5 * drivers[0]["stderr"]
    assert curves[0]["column"] == "c70"
    assert curves[0]["levels"] is None
    assert curves[0]["at"].shape == curves[0]["mean"].shape == (20,)
