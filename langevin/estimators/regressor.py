r"""Regression: networks that say a mean and a standard deviation for every row.

A draw θ of the posterior predicts N(μ_θ(x), σ_θ(x)²); the answer is their mixture, in the unit of the target:

    mean  E_θ μ_θ(x),      variance  E_θ σ_θ² + Var_θ μ_θ,      quantiles of the mixture by bisection.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import column_or_1d

from langevin.diagnostics import calibration, uncertainty
from langevin.estimators.columns import spread
from langevin.estimators.network import NetworkEstimator
from langevin.estimators.predictive import like


class BayesianRegressor(RegressorMixin, NetworkEstimator):
    """Bayesian neural network regression; noise that depends on the row is learned.

    network: in place of an MLP: a module with two outputs, or a function of a key that builds one.
    """

    task = "regression"

    def _checked_y(self, y, reset: bool = False):
        y = column_or_1d(y, warn=True).astype(np.float64)
        if not np.isfinite(y).all():
            row = int(np.argmin(np.isfinite(y))) + 1
            raise ValueError(
                f"y, row {row}: the target is {y[row - 1]}; Input y contains NaN or infinity: remove the row."
            )
        return y

    def _targets(self, y, weight):
        self.center_, self.scale_ = spread(y, weight)
        return ((y - self.center_) / self.scale_).astype(np.float32)

    def _likelihood(self):
        return "heteroscedastic", 2

    def _unit(self, said):
        return dict(mean=said["mean"] * self.scale_ + self.center_, std=said["std"] * self.scale_)

    def _split(self, said):
        return uncertainty.variances(said["mean"], said["std"])

    def predict(self, X, return_std: bool = False, quantiles: Sequence[float] | None = None):
        """The mean of every row; with `return_std` and `quantiles` a tuple: mean, std (n,), quantiles (n, q)."""
        mean, std, at = [], [], []
        for said in self._blocks(X):
            mean.append(said["mean"].mean(axis=0))
            if return_std:
                std.append(np.sqrt(self._split(said).total))
            if quantiles is not None:
                at.append(calibration.quantiles(said["mean"], said["std"], quantiles).T)
        parts = [mean, *([std] if return_std else []), *([at] if quantiles is not None else [])]
        whole = tuple(map(np.concatenate, parts))
        return whole[0] if len(whole) == 1 else whole

    def predict_frame(self, X, quantiles: Sequence[float] = (0.05, 0.95)):
        """All of it in a frame: mean, std, quantiles, aleatoric, epistemic (deviations), outlier."""
        import pandas as pd

        mean, std, at = self.predict(X, return_std=True, quantiles=quantiles)
        parts = self.uncertainty(X)
        columns = dict(mean=mean, std=std) | {f"q{q:g}": at[:, i] for i, q in enumerate(quantiles)}
        columns |= dict(aleatoric=np.sqrt(parts.aleatoric), epistemic=np.sqrt(parts.epistemic))
        columns["outlier"] = np.asarray(parts.epistemic) > self.threshold_
        columns = {k: np.asarray(v) for k, v in columns.items()}
        return like(X, columns) if hasattr(X, "columns") else pd.DataFrame(columns)

    def sample_y(self, X, n_samples: int = 1, random_state=0) -> np.ndarray:
        """Draws from the posterior predictive, (row, n_samples)."""
        random = check_random_state(random_state)
        out = []
        for said in self._blocks(X):
            pick = random.randint(len(said["mean"]), size=(n_samples, said["mean"].shape[1]))
            mean, std = (np.take_along_axis(said[k], pick, axis=0) for k in ("mean", "std"))
            out.append((mean + std * random.standard_normal(mean.shape)).T)
        return np.concatenate(out)

    def log_likelihood(self, X, y) -> np.ndarray:
        """Log density of every target by every draw, (draw, n)."""
        said, y = self.predictive(X), self._checked_y(y)
        z = (y - said["mean"]) / said["std"]
        return -0.5 * z**2 - np.log(said["std"]) - 0.5 * calibration.LOG_2PI

    def log_score(self, X, y) -> float:
        """Mean log posterior predictive density of targets: larger is better."""
        said = self.predictive(X)
        return -calibration.nll_gaussian(self._checked_y(y), said["mean"], said["std"])
