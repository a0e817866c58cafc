"""scikit-learn's own checks of estimators.

They fit tables of some fifty shapes, and a real plan compiles its programs for each. So the fast suite asks them of a
plan that compiles nothing, which is all that an estimator's contract needs, and of a real one only what depends on it.
"""

import warnings

import pytest
from fits import CLOSED, QUICK
from sklearn.utils.estimator_checks import parametrize_with_checks

import langevin as lv

KINDS = (lv.BayesianRegressor, lv.BayesianClassifier)


def agree(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # elsewhere a warning is an error; the checks raise those they are after
        check(estimator)


@parametrize_with_checks([kind(CLOSED, chains=2, hidden=(), holdout=0.0) for kind in KINDS])
def test_scikit_learn_agrees(estimator, check):
    agree(estimator, check)


@pytest.mark.slow
@parametrize_with_checks([kind(QUICK, chains=2, hidden=(), holdout=0.0) for kind in KINDS])
def test_scikit_learn_agrees_with_sampling(estimator, check):
    agree(estimator, check)


@pytest.mark.slow
@parametrize_with_checks(
    [lv.Conformal(kind(QUICK, chains=2, hidden=(8,), holdout=0.0), coverage=0.6) for kind in KINDS]
)
def test_scikit_learn_agrees_with_conformal(estimator, check):
    agree(estimator, check)
