"""Charts draw the right numbers: lines, bands and bars are read back from the axes."""

from functools import partial

import jax
import matplotlib
import numpy as np
import pandas as pd
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from fits import rows
from test_summary import made

import langevin as lv
from langevin.diagnostics import calibration as measures


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def draws():
    random = np.random.default_rng(0)
    return {"a": random.normal(size=(3, 60)), "b": random.normal(size=(3, 60, 2))}


def lines(ax):
    return [line.get_ydata() for line in ax.lines]


def test_a_trace_is_every_draw_of_every_chain(draws):
    axes = made(draws).plot()
    assert axes.shape == (3, 2)
    np.testing.assert_array_equal(lines(axes[0, 0]), draws["a"])
    np.testing.assert_array_equal(lines(axes[2, 0]), draws["b"][:, :, 1])
    assert [ax.get_ylabel() for ax in axes[:, 0]] == ["a", "b[0]", "b[1]"]
    assert axes[-1, 0].get_xlabel() == "draw"
    assert len({line.get_color() for line in axes[0, 0].lines}) == 3
    assert axes[0, 0].figure.get_layout_engine().__class__.__name__ == "ConstrainedLayoutEngine"


def test_a_trace_leaves_out_chains_that_diverged(draws):
    x, ok = draws["a"].copy(), np.ones((3, 60), bool)
    x[1, 5:], ok[1, 5:] = np.nan, False
    ax = made(x, ok=ok).plot("trace")[0, 0]
    np.testing.assert_array_equal(lines(ax), x[[0, 2]])
    assert ax.figure.get_suptitle() == "chain 1 diverged and is left out"


def test_a_large_position_is_followed_by_its_log_density(draws):
    ax = lv.plot.trace(made(np.zeros((3, 60, 50))))[0, 0]
    assert ax.get_ylabel() == "log density"
    assert lv.plot.trace(made(draws), lambda p: {"sum": p["a"] + p["b"][0]})[0, 0].get_ylabel() == "sum"


def test_more_chains_than_named_colours_have_as_many_colours():
    x = np.random.default_rng(0).normal(size=(14, 20))
    ax = lv.plot.trace(made(x))[0, 0]
    assert len({line.get_color() for line in ax.lines}) == 14
    assert ax.get_legend() is None


def test_ranks_count_every_draw_once(draws):
    ax = made(draws["a"]).plot("rank", bins=6)[0]
    counts = np.array([patch.get_data().values for patch in ax.patches if hasattr(patch, "get_data")])
    assert counts.shape == (3, 6)
    np.testing.assert_array_equal(counts.sum(0), 30)  # of all chains a bin has 180/6
    np.testing.assert_array_equal(counts.sum(1), 60)
    apart = made(draws["a"] + 5 * np.arange(3)[:, None]).plot("rank", bins=3)[0]
    counts = np.array([patch.get_data().values for patch in apart.patches if hasattr(patch, "get_data")])
    assert (np.diag(counts) > 55).all()


def test_a_forest_has_the_quantiles_of_every_chain(draws):
    ax = made(draws["a"]).plot("forest")
    wide, narrow, middle = (ax.lines[i].get_xdata() for i in range(3))
    np.testing.assert_allclose(wide, np.quantile(draws["a"][0], [0.05, 0.95]))
    np.testing.assert_allclose(narrow, np.quantile(draws["a"][0], [0.25, 0.75]))
    np.testing.assert_allclose(middle, np.median(draws["a"][0]))


def test_energy_errors_of_every_chain_and_their_size(draws):
    error = draws["a"] * np.array([[1.0], [1.0], [50.0]])
    posterior = made(draws["a"])
    object.__setattr__(posterior, "info", posterior.info._replace(energy_error=error))
    left, right = posterior.plot("energy")
    np.testing.assert_array_equal(lines(left), error)
    np.testing.assert_allclose([bar.get_height() for bar in right.patches], np.sqrt((error**2).mean(1)))


def test_a_kernel_without_energy_is_refused(draws):
    with pytest.raises(ValueError, match="SGLD reports no energy errors; HMC, MALA, MAMS, MCLMC and GHMC do"):
        made(draws).plot("energy")


# --- predictions ----------------------------------------------------------------------------------------------------


def spoken(position, x):
    """A line with a normal error."""
    return {"mean": position * x[:, 0], "std": 0 * x[:, 0] + 0.5}


def test_a_band_has_the_quantiles_of_the_mixture(draws):
    x = np.array([2.0, 0.5, 1.0, 3.0], np.float32)[:, None]
    y = pd.Series([1.0, 2.0, 3.0, 4.0], name="dose")
    ax = made(draws["a"]).plot("predictive_band", x, y, predict=spoken, levels=(0.9,))
    order = np.argsort(x[:, 0])
    mean = draws["a"].reshape(-1, 1) * x[None, order, 0]
    low, middle, high = measures.quantiles(mean, np.full_like(mean, 0.5), [0.05, 0.5, 0.95])
    np.testing.assert_allclose(ax.lines[0].get_xdata(), x[order, 0])
    np.testing.assert_allclose(ax.lines[0].get_ydata(), middle, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), y[order])
    corners = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert corners.min() == pytest.approx(low.min(), rel=1e-4)
    assert corners.max() == pytest.approx(high.max(), rel=1e-4)
    assert ax.get_ylabel() == "dose"


def test_a_band_of_an_estimator_puts_rows_in_order(fitted_regressor):
    model, X, y = fitted_regressor
    ax = lv.plot.predictive_band(model, X, y)
    assert ax.get_xlabel() == "rows, by their median"
    assert (np.diff(ax.lines[0].get_ydata()) >= 0).all()
    assert sorted(ax.lines[1].get_ydata()) == sorted(y)


def test_calibration_of_a_regressor_is_its_pit(fitted_regressor):
    model, X, y = fitted_regressor
    left, right = lv.plot.calibration(model, X, y)
    said = model.predictive(X)
    pit = measures.pit(y, said["mean"], said["std"])
    observed = left.lines[1]
    np.testing.assert_allclose(observed.get_ydata(), measures.calibration_curve(pit, observed.get_xdata()))
    np.testing.assert_array_equal(right.patches[-1].get_data().values, np.histogram(pit, 10, (0, 1))[0])


def test_calibration_of_a_classifier_is_its_reliability(fitted_classifier):
    model, X, y = fitted_classifier
    left, right = lv.plot.calibration(model, X, y)
    found = measures.reliability(np.searchsorted(model.classes_, y), model.predictive(X)["proba"], 10)
    there = found.size > 0
    np.testing.assert_allclose(left.lines[1].get_xdata(), found.confidence[there])
    np.testing.assert_allclose(left.lines[1].get_ydata(), found.accuracy[there])
    np.testing.assert_array_equal(right.patches[0].get_data().values, found.size)


# --- priors ---------------------------------------------------------------------------------------------------------


def test_functions_of_the_prior_are_those_of_its_draws():
    x = np.linspace(-1, 1, 12, dtype=np.float32)[:, None]
    model = lv.bnn(partial(lv.MLP, (1, 3, 1)), (x, 2 * x[:, 0]), noise=0.2, prior="laplace")
    left, right = lv.plot.prior_predictive(model, draws=40, functions=5, key=lv.key(3))
    assert len(left.lines) == 6
    draws = model.prior_draws(lv.key(3), 40)
    at = left.lines[0].get_xdata()
    assert (at[0], at[-1]) == (-1.5, 1.5)
    second = jax.tree.map(lambda u: u[1], draws)
    expected = model.predict(second, at[:, None].astype(np.float32))["mean"]
    np.testing.assert_allclose(left.lines[1].get_ydata(), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(left.lines[-1].get_ydata(), 2 * x[:, 0])
    assert [t.get_text() for t in right.get_yticklabels()] == ["mean", "standard deviation", "smallest", "largest"]
    diamonds = [line.get_xdata()[0] for line in right.lines if line.get_marker() == "D"]
    y = 2 * x[:, 0]
    np.testing.assert_allclose(
        diamonds, [0, 1, (y.min() - y.mean()) / y.std(), (y.max() - y.mean()) / y.std()], atol=1e-6
    )


def test_the_prior_of_an_estimator_needs_no_fit():
    X, y = rows(40)
    left, right = lv.plot.prior_predictive(lv.BayesianRegressor(hidden=(3,), prior="student_t"), X, y, draws=20)
    assert left.get_xlabel() == "target"
    drawn = right.lines[2].get_xdata()[0]
    assert abs(drawn) < 10  # in the units of the data, which are of size 1e9
    label = np.where(y > 0, "up", "down")
    left, right = lv.plot.prior_predictive(lv.BayesianClassifier(hidden=(3,)), X, label, draws=20)
    assert [t.get_text() for t in right.get_xticklabels()] == ["down", "up"]
    np.testing.assert_allclose(right.lines[-1].get_ydata(), [(label == "down").mean(), (label == "up").mean()])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda p, m, X: p.plot("pie"), "there is no kind 'pie'; there are trace, rank, forest"),
        (lambda p, m, X: lv.plot.trace(lv.BayesianRegressor()), "give it a Posterior or an estimator that has been"),
        (lambda p, m, X: lv.plot.prior_predictive(p), "give it a BNN, as bnn"),
        (lambda p, m, X: lv.plot.prior_predictive(m), "takes its columns and units from a table; pass X and y"),
        (lambda p, m, X: lv.plot.trace(3), "this is int; give it a Posterior"),
        (lambda p, m, X: p.plot("calibration", X, X), "does not know how to predict; pass predict="),
        (lambda p, m, X: lv.plot.predictive_band(m, X, levels=(2,)), "levels are .2.; each must lie between 0 and 1"),
        (lambda p, m, X: p.plot("trace", lambda q: {"n": q["b"][None] * np.ones((9, 1))}), "fn gives 18 numbers"),
    ],
)
def test_mistakes_get_one_sentence(call, sentence, draws, fitted_regressor):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call(made(draws), *fitted_regressor[:2])


def test_matplotlib_is_imported_when_it_is_needed():
    import subprocess
    import sys

    code = "import sys, langevin as lv; lv.plot.trace; lv.sample; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
