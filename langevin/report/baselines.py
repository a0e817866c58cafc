"""Simpler models on the same rows: what a posterior must beat to be worth its time.

    trivial    mean and standard deviation of the training rows; in classification the share of each class
    linear     ridge regression, or logistic regression
    boosting   scikit-learn's histogram gradient boosting

All see the inputs of the network. A regression is given Gaussian noise, whose standard deviation is that of the
residuals of five-fold cross-validated predictions of the training rows. Nothing is tuned on the test rows.

References
----------
Hastie, Tibshirani & Friedman (2009), The elements of statistical learning, §3.4.1, §4.4, §10.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from langevin.estimators.network import NetworkEstimator
from langevin.report.data import Predictions

ROWS = 20_000  # training rows that a baseline sees, at most
FOLDS = 5


def fit_baselines(estimator: NetworkEstimator, X: Any, y: np.ndarray, rows: Any) -> dict[str, Predictions]:
    """What each baseline, trained on (X, y), says of the rows."""
    index = np.sort(np.random.default_rng(0).permutation(len(y))[:ROWS])
    encode = lambda X: estimator.columns_.encoded(estimator.columns_.read(X)).astype(float)
    x, new = encode(X)[index], encode(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a baseline that has not quite converged is still a baseline
        if estimator.task == "regression":
            return _regressions(x, np.asarray(y, float)[index], new)
        return _classifications(x, np.searchsorted(estimator.classes_, np.asarray(y)[index]), new, estimator.classes_)


def _regressions(x: np.ndarray, y: np.ndarray, new: np.ndarray) -> dict[str, Predictions]:
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import KFold, cross_val_predict

    constant = lambda mean, std: Predictions(mean=np.full((1, len(new)), mean), std=np.full((1, len(new)), std))
    least = 1e-9 * max(float(np.std(y)), 1.0)
    found = {"trivial": constant(np.mean(y), max(float(np.std(y, ddof=1)), least))}
    folds = KFold(min(FOLDS, len(y)), shuffle=True, random_state=0)
    models = {
        "linear": RidgeCV(alphas=np.logspace(-3, 4, 15)),
        "boosting": HistGradientBoostingRegressor(random_state=0),
    }
    for name, model in models.items():
        residual = y - cross_val_predict(model, x, y, cv=folds)
        mean = model.fit(x, y).predict(new)[None]
        std = max(float(np.sqrt(np.mean(residual**2))), least)
        found[name] = Predictions(mean=mean, std=np.full_like(mean, std))
    return found


def _classifications(x: np.ndarray, y: np.ndarray, new: np.ndarray, classes: np.ndarray) -> dict[str, Predictions]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    share = (np.bincount(y, minlength=len(classes)) + 0.5) / (len(y) + 0.5 * len(classes))
    found = {"trivial": Predictions(proba=np.broadcast_to(share, (1, len(new), len(classes))).copy())}
    models = {
        "linear": LogisticRegression(max_iter=1000),
        "boosting": HistGradientBoostingClassifier(random_state=0),
    }
    for name, model in models.items():
        proba = np.zeros((1, len(new), len(classes)))
        model.fit(x, y)
        proba[0][:, model.classes_] = model.predict_proba(new)
        found[name] = Predictions(proba=proba)
    return found
