r"""Classification: networks that say a probability for every class, averaged over the posterior, E_θ p_θ(y | x)."""

from __future__ import annotations

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from langevin.diagnostics import calibration, uncertainty
from langevin.estimators.network import NetworkEstimator
from langevin.estimators.predictive import like


class BayesianClassifier(ClassifierMixin, NetworkEstimator):
    """Bayesian neural network classification.

    network: in place of an MLP: a module with an output for every class, or a function of a key that builds one.
    """

    task = "classification"

    def _checked_y(self, y, reset: bool = False):
        y = column_or_1d(y, warn=True)
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            raise ValueError("y: Input y contains NaN or infinity: remove those rows.")
        check_classification_targets(y)
        if reset:
            self.classes_ = np.unique(y)
        elif not (known := np.isin(y, self.classes_)).all():
            raise ValueError(f"y: the class {y[np.argmin(known)]!r} was not in the training data.")
        return np.searchsorted(self.classes_, y).astype(np.float64)

    def _targets(self, y, weight):
        if len(np.unique(y)) < 2:
            raise ValueError("BayesianClassifier: y holds one class only; two or more classes are needed.")
        return y.astype(np.int32)

    def _likelihood(self):
        return "categorical", len(self.classes_)

    def _split(self, said):
        return uncertainty.entropies(said["proba"])

    def _informative(self, said):
        return self._split(said).epistemic

    def predict_proba(self, X) -> np.ndarray:
        """Probabilities (n, class), in the order of `classes_`."""
        proba = np.concatenate([said["proba"].mean(axis=0) for said in self._blocks(X)])
        return proba / proba.sum(axis=1, keepdims=True)

    def predict(self, X) -> np.ndarray:
        """The most probable class."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def predict_frame(self, X, quantiles=()):
        """All of it in a frame: class, probabilities, aleatoric and epistemic entropy, outlier."""
        import pandas as pd

        proba, parts = self.predict_proba(X), self.uncertainty(X)
        columns = {"class": self.classes_[proba.argmax(axis=1)]}
        columns |= {f"p({name})": proba[:, i] for i, name in enumerate(self.classes_)}
        columns |= {k: np.asarray(getattr(parts, k)) for k in ("aleatoric", "epistemic")}
        columns["outlier"] = columns["epistemic"] > self.threshold_
        return like(X, columns) if hasattr(X, "columns") else pd.DataFrame(columns)

    def sample_y(self, X, n_samples: int = 1, random_state=0) -> np.ndarray:
        """Classes drawn from the posterior predictive, (row, n_samples)."""
        random, proba = check_random_state(random_state), self.predict_proba(X)
        at = random.uniform(size=(len(proba), n_samples, 1))
        place = (np.cumsum(proba, axis=1)[:, None, :] < at).sum(axis=2).clip(max=len(self.classes_) - 1)
        return self.classes_[place]

    def log_likelihood(self, X, y) -> np.ndarray:
        """Log probability of every label by every draw, (draw, n)."""
        place = self._checked_y(y).astype(int)
        proba = self.predictive(X)["proba"][:, np.arange(len(place)), place]
        return np.log(np.maximum(proba, np.finfo(np.float32).tiny))

    def log_score(self, X, y) -> float:
        """Mean log predictive probability of labels: larger is better."""
        return -calibration.nll_categorical(self._checked_y(y).astype(int), self.predict_proba(X))
