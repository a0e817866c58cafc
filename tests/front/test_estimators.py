"""Answers of estimators mean what they say, and estimators work in scikit-learn's ways."""

import pickle

import jax
import numpy as np
import pandas as pd
import pytest
from fits import Regressor
from scipy import stats
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import langevin as lv
from langevin.estimators.architecture import weighed
from langevin.tune.plan import PLANS, Plan, holding

# --- answers --------------------------------------------------------------------------------------------------------


def test_answers_of_a_regressor_agree(fitted_regressor):
    model, X, y = fitted_regressor
    mean, std, at = model.predict(X, return_std=True, quantiles=[0.05, 0.5, 0.95])
    said = model.predictive(X)
    np.testing.assert_allclose(mean, said["mean"].mean(0))
    np.testing.assert_allclose(std**2, (said["std"] ** 2).mean(0) + said["mean"].var(0))
    assert (np.diff(at, axis=1) > 0).all()
    parts = model.uncertainty(X)
    assert isinstance(parts, pd.DataFrame)
    np.testing.assert_allclose(parts.total, std)
    np.testing.assert_allclose(parts.total**2, parts.aleatoric**2 + parts.epistemic**2)
    frame = model.predict_frame(X)
    assert list(frame.columns) == ["mean", "std", "q0.05", "q0.95", "aleatoric", "epistemic", "outlier"]
    np.testing.assert_allclose(frame["q0.95"], at[:, 2])
    np.testing.assert_allclose(frame["aleatoric"] ** 2 + frame["epistemic"] ** 2, std**2)
    assert model.log_score(X, y) > stats.norm.logpdf(y, y.mean(), y.std()).mean()


def test_samples_have_the_moments_that_are_told(fitted_regressor):
    model, X, _ = fitted_regressor
    mean, std = model.predict(X[:10], return_std=True)
    drawn = model.sample_y(X[:10], 4000, random_state=1)
    assert drawn.shape == (10, 4000)
    z = (drawn.mean(1) - mean) / (std / np.sqrt(4000))
    assert np.abs(z).max() < 5
    assert np.abs(drawn.std(1) / std - 1).max() < 0.1


def test_an_unusual_row_is_an_outlier(fitted_regressor):
    model, X, _ = fitted_regressor
    far = X.iloc[:5].assign(x=1e-5)
    assert model.is_outlier(far).all()
    assert model.is_outlier(X).mean() < 0.5
    share = np.mean(model.epistemic_ > model.threshold_)
    assert share <= 1 / len(model.epistemic_)  # of a few rows held out at most one is above their 95 % quantile


def test_answers_of_a_classifier_agree(fitted_classifier):
    model, X, y = fitted_classifier
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(1), 1)
    assert model.score(X, y) > 0.85
    assert set(model.predict(X)) <= {"up", "down"}
    parts = model.uncertainty(X)
    np.testing.assert_allclose(parts.total, stats.entropy(proba, axis=1), atol=1e-6)
    frame = model.predict_frame(X)
    assert list(frame.columns) == ["class", "p(down)", "p(up)", "aleatoric", "epistemic", "outlier"]
    drawn = model.sample_y(X[:4], 2000)
    z = ((drawn == "up").mean(1) - proba[:4, 1]) / np.sqrt(np.maximum(proba[:4, 1] * proba[:4, 0], 1e-3) / 2000)
    assert np.abs(z).max() < 5
    assert -np.log(2) < model.log_score(X, y) < 0


def test_a_weight_of_two_is_two_rows(fitted_regressor):
    _, X, y = fitted_regressor
    twice = np.r_[np.arange(60), np.arange(20)]
    weight = np.r_[np.full(20, 2.0), np.ones(40)]
    a = Regressor().fit(X.iloc[twice], y[twice]).predict(X)
    b = Regressor().fit(X.iloc[:60], y[:60], sample_weight=weight).predict(X)
    np.testing.assert_array_equal(a, b)
    other = Regressor().fit(X.iloc[:60], y[:60], sample_weight=weight[::-1]).predict(X)
    assert not np.array_equal(b, other)


def test_weights_weigh_the_likelihood():
    random = np.random.default_rng(0)
    x, y = random.normal(size=(6, 2)).astype("float32"), random.normal(size=6).astype("float32")
    weight = np.array([1.0, 3.0, 1.0, 2.0, 1.0, 1.0])
    model, again = Regressor(), np.repeat(np.arange(6), weight.astype(int))
    one, many = model._model(x, y), model._model(x[again], y[again])
    counted = weighed(one.target, weight).log_density(one.position)
    np.testing.assert_allclose(counted, many.target.log_density(one.position), rtol=1e-5)
    assert abs(counted - one.target.log_density(one.position)) > 0.1


# --- scikit-learn's ways --------------------------------------------------------------------------------------------


def test_a_grid_reaches_the_kernel(fitted_regressor):
    _, X, y = fitted_regressor
    model = Regressor(kernel=lv.SGLD(1e-6))
    grid = GridSearchCV(model, {"kernel__step_size": [1e-6, 1e-5]}, cv=2, refit=False).fit(X[:60], y[:60])
    assert set(grid.cv_results_["param_kernel__step_size"]) == {1e-6, 1e-5}
    first, second = grid.cv_results_["mean_test_score"]
    assert np.isfinite(first)
    assert first != second
    assert model.set_params(**grid.best_params_)._chosen(60).kernel.step_size == np.float32(
        grid.best_params_["kernel__step_size"]
    )


def test_parts_of_a_plan_are_replaced():
    model = lv.BayesianRegressor("mile").set_params(plan__draws=7, kernel__step_size=0.125, kernel__length=3.0)
    assert model.plan.draws == 7
    plan = model._chosen(100)
    assert (plan.draws, float(plan.kernel.step_size), float(plan.kernel.length)) == (7, 0.125, 3.0)
    assert model.get_params()["kernel__step_size"] == 0.125
    assert lv.BayesianRegressor(kernel=lv.SGLD(1e-4))._chosen(100).tune is None
    with pytest.raises(ValueError, match="kernel__speed"):
        model.set_params(kernel__speed=1)


def test_what_is_held_survives_tuning():
    from langevin.core.kernel import PerChain, spread

    def tune(key, kernel, target, states):
        return PerChain(spread(lv.replace(kernel, step_size=9.0), 3)), states

    class States:
        position = {"x": np.zeros((3, 2))}

    plan = holding(Plan(PLANS["mile"].kernel, tune), step_size=0.5)
    import langevin.tune.plan as module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "chains_of", lambda states: 3)
        kernel, _ = plan.tune(None, plan.kernel, None, States())
    np.testing.assert_array_equal(kernel.kernel.step_size, [0.5] * 3)
    assert kernel.kernel.step_size.shape == (3,)
    assert kernel.kernel.length.shape == (3,)


@pytest.mark.slow
def test_smile_takes_a_table_of_odd_length():
    """Mini-batches have even halves, chains stay alive and know the table."""
    random = np.random.default_rng(0)
    X = random.normal(size=(101, 2))
    y = X[:, 0] - 2 * X[:, 1] + 0.1 * random.normal(size=101)
    model = lv.BayesianRegressor("smile", hidden=(), chains=2, holdout=0.0, random_state=0)
    model.set_params(plan__draws=8, plan__thin=8, plan__ascent=500)
    model.fit(X, y)
    assert type(model.posterior_.kernel.kernel) is lv.SMILE
    assert model.plan_.sampling(model._net().target).batch == 100
    assert model.posterior_.diverged == ()
    assert model.score(X, y) > 0.99
    _, deviation = model.predict(X, return_std=True)
    assert 0.08 < np.median(deviation) < 0.13  # the noise is 0.1


def test_in_a_pipeline(fitted_regressor):
    _, X, y = fitted_regressor
    pipe = make_pipeline(FunctionTransformer(), Regressor()).fit(X, y)
    assert pipe.score(X, y) > 0.8


def test_a_saved_estimator_answers_as_before(fitted_regressor, fitted_classifier, tmp_path):
    for name, (model, X, y) in dict(r=fitted_regressor, c=fitted_classifier).items():
        model.save(tmp_path / name)
        again = lv.load(tmp_path / name)
        assert type(again) is type(model)
        ask = "predict_proba" if name == "c" else "predict"
        np.testing.assert_array_equal(getattr(again, ask)(X), getattr(model, ask)(X))
        np.testing.assert_array_equal(again.is_outlier(X), model.is_outlier(X))
        assert again.score(X, y) == model.score(X, y)
        assert not any(b"pickle" in f.read_bytes()[:100] for f in (tmp_path / name).rglob("*") if f.is_file())
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    with pytest.raises(lv.core.StoreError, match="holds no saved estimator"):
        lv.load(tmp_path)


def test_chains_go_on_as_if_they_had_not_stopped(fitted_regressor, tmp_path):
    whole, X, y = fitted_regressor

    def pressed(progress):
        if progress.done == 1:
            raise KeyboardInterrupt
        return progress

    with pytest.warns(UserWarning, match="interrupted; 1 draws a chain are kept"):
        model = Regressor().fit(X, y, callbacks=(pressed,))
    assert model.posterior_.info.ok.shape == (2, 1)
    model.save(tmp_path / "m")
    model = lv.load(tmp_path / "m").more(X, y, 3)
    np.testing.assert_array_equal(model.posterior_.info.log_density, whole.posterior_.info.log_density)
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))
    with pytest.raises(ValueError, match="pass the same table"):
        model.more(X[:50], y[:50], 3)


def test_the_posterior_is_a_target_and_the_prior_its_base(fitted_regressor):
    """At draws of the prior, log p̃ − log q is the log likelihood, and a weight of two counts it twice."""
    _, X, y = fitted_regressor
    twice = np.full(len(y), 2.0)
    (one, base), (two, _) = Regressor().target(X, y), Regressor().target(X, y, twice)
    place = jax.tree.map(lambda u: u[0], base.exact(lv.key(0), 1))
    likelihood = [float(t.log_density(place)) - float(base.log_density(place)) for t in (one, two)]
    np.testing.assert_allclose(likelihood[1], 2 * likelihood[0], rtol=1e-4)
    assert one.n <= len(y)
