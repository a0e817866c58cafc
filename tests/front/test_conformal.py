"""Conformal intervals and sets cover as stated."""

import numpy as np
import pytest
from fits import CLOSED, Classifier, rows
from scipy import stats

import langevin as lv


class Fixed(lv.BayesianRegressor):
    """A regressor that knows nothing, and is fitted_regressor at once."""

    def fit(self, X, y, sample_weight=None):
        self.n_features_in_ = X.shape[1]
        self.posterior_ = None
        return self

    def predict(self, X, return_std=False, quantiles=None):
        return np.zeros(len(X)), 1 + np.abs(X[:, 0])


def test_conformal_intervals_cover_as_stated():
    random = np.random.default_rng(0)
    hits = trials = 0
    for seed in range(200):
        X = random.normal(size=(140, 1))
        y = random.standard_t(2, size=140) * (1 + 3 * np.abs(X[:, 0]))
        model = lv.Conformal(Fixed(), coverage=0.8, share=0.4, random_state=seed).fit(X[:100], y[:100])
        low, high = model.predict_interval(X[100:]).T
        hits, trials = hits + np.sum((low <= y[100:]) & (y[100:] <= high)), trials + 40
    # 40 rows scored: coverage is a Beta(33, 8) variable, of mean 33/41, for each of 200 models
    spread = np.sqrt(200 * (stats.beta(33, 8).var() * 40**2 + 40 * 0.8 * 0.2)) / trials
    assert abs(hits / trials - 33 / 41) < 4 * spread


def test_conformal_sets_hold_the_label_as_stated():
    X, y = rows(400, 3)
    y = np.where(y + 1e9 * np.random.default_rng(1).normal(size=400) > 0, "up", "down")
    model = lv.Conformal(Classifier(hidden=()).set_params(plan=CLOSED), coverage=0.9, random_state=0).fit(
        X[:200], y[:200]
    )
    inside = model.predict_set(X[200:])[np.arange(200), (y[200:] == "up").astype(int)]
    assert stats.binom.cdf(inside.sum(), 200, 0.82) > 1e-3
    with pytest.raises(ValueError, match="use predict_set"):
        model.predict_interval(X)
    with pytest.raises(ValueError, match=r"3 are to score, too few for coverage 0\.9; 9 are needed"):
        model.fit(X[:10], y[:10])
