"""scikit-learn's own checks of estimators."""

import warnings

import pytest
from fits import QUICK
from sklearn.utils.estimator_checks import parametrize_with_checks

import langevin as lv


@parametrize_with_checks(
    [kind(QUICK, chains=2, hidden=(), holdout=0.0) for kind in (lv.BayesianRegressor, lv.BayesianClassifier)]
)
def test_scikit_learn_agrees(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # elsewhere a warning is an error; the checks raise those they are after
        check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        lv.Conformal(kind(QUICK, chains=2, hidden=(8,), holdout=0.0), coverage=0.6)
        for kind in (lv.BayesianRegressor, lv.BayesianClassifier)
    ]
)
def test_scikit_learn_agrees_with_conformal(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)
