"""Simpler models on the same rows: what a posterior must beat to be worth its time.

    trivial    mean and standard deviation of the training rows; in classification the share of each class
    linear     ridge regression, or logistic regression
    boosting   scikit-learn's histogram gradient boosting

All see the inputs of the network. A regression is given noise of the family of the network's likelihood, so that log
densities are compared with log densities: a Gaussian (of log y, for a log-normal), whose standard deviation is that of
the residuals of five-fold cross-validated predictions of the training rows; for counts Poisson regression and boosting
with Poisson's loss, and a negative binomial around them, whose dispersion is found in the same way. Nothing is tuned on
the test rows.

References
----------
Hastie, Tibshirani & Friedman (2009), The elements of statistical learning, §3.4.1, §4.4, §10.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from langevin.diagnostics.families import LogNormal, NegativeBinomial
from langevin.estimators.network import NetworkEstimator
from langevin.report.data import Predictions

ROWS = 20_000  # training rows that a baseline sees, at most
FOLDS = 5
FEW = 5_000  # rows for which one thread is enough


def fit_baselines(estimator: NetworkEstimator, X: Any, y: np.ndarray, rows: Any) -> dict[str, Predictions]:
    """What each baseline, trained on (X, y), says of the rows."""
    index = np.sort(np.random.default_rng(0).permutation(len(y))[:ROWS])
    encode = lambda X: estimator.columns_.encoded(estimator.columns_.read(X)).astype(float)
    x, new = encode(X)[index], encode(rows)
    # beside a busy process threads that wait for one another are ten times slower than one
    threads = threadpool_limits(1 if len(index) <= FEW else None)
    with threads, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a baseline that has not quite converged is still a baseline
        if estimator.task == "regression":
            of_family = {"gaussian": _gaussians, "lognormal": _lognormals}.get(
                getattr(estimator, "likelihood", "gaussian"), _counts
            )
            return of_family(x, np.asarray(y, float)[index], new)
        return _classifications(x, np.searchsorted(estimator.classes_, np.asarray(y)[index]), new, estimator.classes_)


def _gaussians(x: np.ndarray, y: np.ndarray, new: np.ndarray) -> dict[str, Predictions]:
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


def _lognormals(x: np.ndarray, y: np.ndarray, new: np.ndarray) -> dict[str, Predictions]:
    """The Gaussian ones, of log y."""
    found = {}
    for name, said in _gaussians(x, np.log(y), new).items():
        mean, std = LogNormal(said.mean, said.std).moments()
        found[name] = Predictions(mean=mean, std=std, family="lognormal", log_mean=said.mean, log_std=said.std)
    return found


def _counts(x: np.ndarray, y: np.ndarray, new: np.ndarray) -> dict[str, Predictions]:
    """Negative binomials, whose dispersion is that of cross-validated predictions (by moments)."""
    from sklearn.dummy import DummyRegressor
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import PoissonRegressor
    from sklearn.model_selection import KFold, cross_val_predict

    folds = KFold(min(FOLDS, len(y)), shuffle=True, random_state=0)
    models = {
        "trivial": DummyRegressor(),
        "linear": PoissonRegressor(alpha=1e-2, max_iter=1000),
        "boosting": HistGradientBoostingRegressor(loss="poisson", random_state=0),
    }
    found, least = {}, 1e-3 * max(float(np.mean(y)), 1e-3)
    for name, model in models.items():
        if not y.any():  # no count above 0: nothing to fit
            model = DummyRegressor()
        fair = np.maximum(cross_val_predict(model, x, y, cv=folds), least)
        alpha = max(float(np.sum((y - fair) ** 2 - fair) / np.sum(fair**2)), 1e-6)
        mean = np.maximum(model.fit(x, y).predict(new), least)[None]
        law = NegativeBinomial(mean, np.full_like(mean, alpha))
        found[name] = Predictions(
            mean=mean, std=law.moments()[1], family="negative_binomial", dispersion=law.dispersion
        )
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
