r"""Split-conformal intervals and sets: coverage that holds whatever the model is worth, for rows like those it saw.

A share of the rows is held out of the fit of `estimator` and scored; with q the ⌈(n + 1) c⌉-th smallest of n scores s

    regression       s = |y − mean(x)|/std(x)      interval  mean(x) ± q std(x)
    classification   s = 1 − p(y | x)              set       {y : p(y | x) ≥ 1 − q}

cover the target of a new exchangeable row with probability at least c (and at most c + 1/(n + 1) where scores have no
ties): on average over rows, not for each kind of row. The model's std makes intervals wide where it is unsure.

References
----------
Vovk, Gammerman & Shafer (2005), Algorithmic learning in a random world, §4.2 (inductive conformal prediction).
Lei, G'Sell, Rinaldo, Tibshirani & Wasserman (2018), Distribution-free predictive inference for regression, §5.2
    (scores over a spread) and theorem 2 (upper bound).
Sadinle, Lei & Wasserman (2019), Least ambiguous set-valued classifiers, theorem 1.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
from sklearn.base import MetaEstimatorMixin, clone, is_classifier
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing, check_random_state, get_tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from langevin.diagnostics.families import FAMILIES
from langevin.estimators.shown import Shown


class Conformal(MetaEstimatorMixin, Shown):
    """An estimator whose intervals or sets cover with a stated probability.

    estimator: BayesianRegressor, BayesianClassifier, or another with predict(X, return_std=True) or predict_proba.
    coverage: the probability, c.
    share: of rows held out to score.
    random_state: which they are.
    """

    def __init__(self, estimator: Any, *, coverage: float = 0.9, share: float = 0.25, random_state: Any = None):
        self.estimator = estimator
        self.coverage = coverage
        self.share = share
        self.random_state = random_state

    def fit(self, X, y):
        """Fit the estimator on some rows and score it on the others."""
        if not 0 < self.coverage < 1:
            raise ValueError(f"Conformal: coverage is {self.coverage}; it must lie between 0 and 1.")
        X, y = self._checked(X, y)
        n, rows = len(y), math.ceil(len(y) * self.share)
        if _rank(rows, self.coverage) > rows:
            need = next(k for k in itertools.count(rows) if _rank(k, self.coverage) <= k)
            raise ValueError(
                f"Conformal: of n_samples={n} {rows} are to score, too few for coverage {self.coverage}; {need} are "
                "needed: take a larger share, more rows or a lower coverage."
            )
        random = check_random_state(self.random_state)
        stay, held = train_test_split(np.arange(n), test_size=rows, random_state=random)
        pick = lambda u, index: _safe_indexing(u, index)
        inner = clone(self.estimator)
        if inner.get_params().get("random_state", 0) is None:
            inner.set_params(random_state=random.randint(2**31 - 1))
        self.estimator_ = inner.fit(pick(X, stay), pick(y, stay))
        scores = np.sort(self._scores(pick(X, held), np.asarray(pick(y, held))))
        self.radius_ = float(scores[_rank(rows, self.coverage) - 1])
        return self

    def _checked(self, X, y) -> tuple[Any, np.ndarray]:
        if y is None:
            raise ValueError("Conformal requires y to be passed, but the target y is None.")
        if not hasattr(X, "columns"):
            return validate_data(
                self, X, y, dtype=None, ensure_all_finite="allow-nan", y_numeric=not is_classifier(self.estimator)
            )
        validate_data(self, X, skip_check_array=True)
        check_consistent_length(X, y)
        return X, column_or_1d(y, warn=True)

    def _scores(self, X, y) -> np.ndarray:
        if is_classifier(self.estimator_):
            proba, classes = self.estimator_.predict_proba(X), self.estimator_.classes_
            place = np.searchsorted(classes, y).clip(max=len(classes) - 1)
            return np.where(classes[place] == y, 1 - proba[np.arange(len(y)), place], 1.0)
        mean, std = self.estimator_.predict(X, return_std=True)
        return np.abs(y - mean) / std

    def predict(self, X):
        """As the estimator does."""
        check_is_fitted(self)
        return self.estimator_.predict(X)

    def predict_interval(self, X) -> np.ndarray:
        """Lower and upper ends, (n, 2); not below 0 where the likelihood has no values there."""
        check_is_fitted(self)
        if is_classifier(self.estimator_):
            raise ValueError("Conformal: a classifier has sets and no intervals; use predict_set.")
        mean, std = self.estimator_.predict(X, return_std=True)
        ends = np.stack([mean - self.radius_ * std, mean + self.radius_ * std], axis=1)
        family = FAMILIES[getattr(self.estimator_, "likelihood", "gaussian")]
        if family.discrete:  # an interval holds the whole numbers inside it
            ends = np.stack([np.ceil(ends[:, 0]), np.floor(ends[:, 1])], axis=1)
        return np.maximum(ends, 0.0) if family.positive else ends

    def predict_set(self, X) -> np.ndarray:
        """Which classes are in the set of a row, (n, class)."""
        check_is_fitted(self)
        if not is_classifier(self.estimator_):
            raise ValueError("Conformal: a regressor has intervals and no sets; use predict_interval.")
        return self.estimator_.predict_proba(X) >= 1 - self.radius_

    def score(self, X, y) -> float:
        """As the estimator does."""
        check_is_fitted(self)
        return self.estimator_.score(X, y)

    @property
    def classes_(self):
        return self.estimator_.classes_

    def __sklearn_tags__(self):
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type, tags.input_tags = inner.estimator_type, inner.input_tags
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.target_tags = dataclasses.replace(inner.target_tags, multi_output=False)
        return tags


def _rank(n: int, coverage: float) -> int:
    """⌈(n + 1) c⌉, where 10 · 0.9 is 9."""
    return math.ceil((n + 1) * coverage - 1e-9)
