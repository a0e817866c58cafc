r"""Regression: networks that say a distribution for every row, of one of four families.

A draw θ of the posterior predicts p_θ(y | x); the answer is the mixture over draws (`diagnostics.families`), in the
unit of the target:

    mean  E_θ E[y | x, θ],      variance  E_θ Var[y | x, θ] + Var_θ E[y | x, θ],      quantiles of the mixture.

    gaussian            numbers: a mean and a standard deviation for every row
    lognormal           numbers above 0, such as prices and durations: a Gaussian for log y
    poisson             counts whose variance is their mean: a rate for every row
    negative_binomial   counts of any larger variance: a rate and a dispersion for every row

With y of shape (n, k) one network says the parameters of k targets, which are independent given them; answers have
shape (n, k).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, cast

import numpy as np
from scipy.special import logsumexp
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d

from langevin.diagnostics import uncertainty
from langevin.diagnostics.disagreement import mutual_information
from langevin.diagnostics.families import FAMILIES, Mixture, mixture
from langevin.estimators.columns import spread
from langevin.estimators.network import NetworkEstimator
from langevin.estimators.predictive import joint, like

KINDS = dict(gaussian="heteroscedastic", lognormal="heteroscedastic") | {k: k for k in ("poisson", "negative_binomial")}
COUNTS = ("poisson", "negative_binomial")


@dataclass(eq=False, repr=False)
class BayesianRegressor(RegressorMixin, NetworkEstimator):
    """Bayesian neural network regression; noise that depends on the row is learned.

    network: in place of an MLP: a module with two outputs (one for "poisson") for every target, or a function of a key
        that builds one.
    likelihood: "gaussian", "lognormal" (targets above 0), "poisson" or "negative_binomial" (counts).
    """

    task = "regression"
    several = True

    _: KW_ONLY
    likelihood: str = "gaussian"

    _only = cast("int | None", None)  # the place of the target that the answers are about; None for all of them

    # --- targets -----------------------------------------------------------------------------------------------

    def _checked_y(self, y, reset: bool = False):
        y = np.asarray(y)
        y = (y if y.ndim == 2 and y.shape[1] > 1 else column_or_1d(y, warn=True)).astype(np.float64)
        wrong = ~np.isfinite(y).reshape(len(y), -1).all(axis=1)
        if wrong.any():
            row = int(np.argmax(wrong)) + 1
            raise ValueError(
                f"y, row {row}: the target is {y[row - 1]}; Input y contains NaN or infinity: remove the row."
            )
        return y

    def _targets(self, y, weight):
        if self.likelihood not in FAMILIES:
            known = ", ".join(FAMILIES)
            raise ValueError(f"BayesianRegressor: likelihood is {self.likelihood!r}; it must be one of {known}.")
        self._check_support(y)
        if self.likelihood in COUNTS:
            mean = np.average(y, axis=0, weights=weight)
            self.center_: Any = np.log(np.maximum(mean, 0.5 / weight.sum()))
            self.scale_: Any = np.ones(y.shape[1:])[()]
            return y.astype(np.float32)
        y = np.log(y) if self.likelihood == "lognormal" else y
        if y.ndim == 1:
            self.center_, self.scale_ = spread(y, weight)
        else:
            self.center_, self.scale_ = np.array([spread(u, weight) for u in y.T]).T
        return ((y - self.center_) / self.scale_).astype(np.float32)

    def _check_support(self, y) -> None:
        what = dict(lognormal=("numbers above 0", y > 0))
        what |= {name: ("whole numbers from 0 up", (y >= 0) & (y == np.floor(y))) for name in COUNTS}
        words, right = what.get(self.likelihood, ("", np.ones(len(y), bool)))
        right = np.asarray(right).reshape(len(y), -1).all(axis=1)
        if not right.all():
            value = y[int(np.argmin(right))]
            raise ValueError(f"y: the target is {value} in a row, and the likelihood {self.likelihood} needs {words}.")

    def _offsets(self, y, weight):
        """Of log likelihoods, to densities of y in units of its standard deviation whatever the likelihood."""
        y = y.reshape(len(y), -1)
        scale = np.log([spread(u, weight)[1] for u in y.T])
        if self.likelihood == "lognormal":
            return (scale - np.log(y) - np.log(np.atleast_1d(self.scale_))).sum(axis=1)
        return np.full(len(y), scale.sum() if self.likelihood in COUNTS else 0.0)

    def _likelihood(self):
        per = 1 if self.likelihood == "poisson" else 2
        return KINDS[self.likelihood], per * np.size(getattr(self, "center_", 0.0))

    def _center(self):
        return self.center_ if self.likelihood in COUNTS else 0.0

    # --- what draws say ----------------------------------------------------------------------------------------

    def _unit(self, said):
        center, scale = self.center_, self.scale_
        if self._only is not None:
            said = {k: u[..., self._only] for k, u in said.items()}
            center, scale = center[self._only], scale[self._only]
        if self.likelihood in COUNTS:
            own = {("mean" if k == "rate" else k): np.asarray(v, np.float64) for k, v in said.items()}
        else:
            mean, std = said["mean"] * scale + center, said["std"] * scale
            own = dict(log_mean=mean, log_std=std) if self.likelihood == "lognormal" else dict(mean=mean, std=std)
        mean, std = mixture(self.likelihood, own).moments()
        return own | dict(mean=mean, std=std)

    def _mixture(self, said) -> Mixture:
        """Of all rows, and of all targets of each in turn."""
        return mixture(self.likelihood, {k: u.reshape(len(u), -1) for k, u in said.items()})

    def _split(self, said):
        return uncertainty.Split(*(part.reshape(said["mean"].shape[1:]) for part in self._mixture(said).split()))

    def _informative(self, said):
        return mutual_information(self._mixture(said)).value.reshape(said["mean"].shape[1:])

    def _disagreement(self, said):
        """The standard deviation, over draws, of the mean or of its logarithm; relative to the scale, of many."""
        if self.likelihood == "gaussian":
            place = said["mean"]
        else:
            place = said["log_mean"] if self.likelihood == "lognormal" else np.log(np.maximum(said["mean"], 1e-30))
        apart = place.std(axis=0)
        return apart if apart.ndim == 1 else apart / self.scale_

    # --- what is asked of it -----------------------------------------------------------------------------------

    def predict(self, X, return_std: bool = False, quantiles: Sequence[float] | None = None):
        """The mean of every row; with `return_std` and `quantiles` a tuple: mean, std (n,), quantiles (n, q).

        Of several targets the mean is (n, k), std too, and quantiles are (n, k, q).
        """
        parts = [tuple(b.values()) for b in self._answers(X, std=return_std, quantiles=quantiles)]
        whole = tuple(map(np.concatenate, zip(*parts, strict=True)))
        return whole[0] if len(whole) == 1 else whole

    def _answers(self, X, *, std: bool, quantiles: Sequence[float] | None) -> Iterator[dict[str, np.ndarray]]:
        for said in self._blocks(X):
            shape, found = said["mean"].shape[1:], dict(mean=said["mean"].mean(axis=0))
            if std:
                found["std"] = self._split(said).total
            if quantiles is not None:
                at = self._mixture(said).quantiles(quantiles) if len(quantiles) else np.zeros((0, np.prod(shape)))
                found["quantiles"] = at.T.reshape(*shape, len(quantiles))
            yield found

    def only(self, target: str | int) -> BayesianRegressor:
        """A fit of several targets as a fit of one of them: its predictions, scores and outliers.

        target: its name, or its number from 0.
        """
        check_is_fitted(self)
        known = list(getattr(self, "targets_", ()))
        place = known.index(target) if target in known else target
        if not (isinstance(place, int) and 0 <= place < len(known)):
            raise ValueError(f"only: there is no target {target!r}; the fit has {', '.join(known)}.")
        if len(known) == 1:
            return self
        one = copy.copy(self)
        one._only, one.targets_ = place, [known[place]]
        one.epistemic_ = self.epistemic_[:, place] * self.scale_[place]
        one.threshold_ = float(np.quantile(one.epistemic_, 1 - self.outliers))
        return one

    def predict_frame(self, X, quantiles: Sequence[float] = (0.05, 0.95)):
        """All of it in a frame: mean, std, quantiles, aleatoric, epistemic (deviations), outlier.

        Of several targets the columns begin with their names.
        """
        import pandas as pd

        parts = [self._told(said, tuple(quantiles)) for said in self._blocks(X)]
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return like(X, columns) if hasattr(X, "columns") else pd.DataFrame(columns)

    def _told(self, said: dict[str, np.ndarray], quantiles: tuple[float, ...]) -> dict[str, np.ndarray]:
        """One block of a frame."""
        mean, split = said["mean"].mean(axis=0), self._split(said)
        at = self._mixture(said).quantiles(quantiles) if quantiles else np.zeros((0, mean.size))
        found = dict(mean=mean, std=split.total)
        found |= {f"q{q:g}": at[i].reshape(mean.shape) for i, q in enumerate(quantiles)}
        found |= dict(aleatoric=split.aleatoric, epistemic=split.epistemic)
        if mean.ndim == 2:
            found = {f"{name} {k}": u[:, i] for i, name in enumerate(self.targets_) for k, u in found.items()}
        return found | dict(outlier=joint(self._disagreement(said)) > self.threshold_)

    def sample_y(self, X, n_samples: int = 1, random_state=0) -> np.ndarray:
        """Draws from the posterior predictive, (n, n_samples), or (n, k, n_samples); targets of a draw are joint."""
        random, out = check_random_state(random_state), []
        for said in self._blocks(X):
            pick = random.randint(len(said["mean"]), size=(n_samples, said["mean"].shape[1]))
            rows = np.arange(pick.shape[1])
            drawn = mixture(self.likelihood, {k: u[pick, rows] for k, u in said.items()}).draw(random)
            out.append(np.moveaxis(drawn, 0, -1))
        return np.concatenate(out)

    def log_likelihood(self, X, y) -> np.ndarray:
        """Log density (log probability, of counts) of every target by every draw, (draw, n); the sum over targets."""
        said, y = self.predictive(X), self._checked_y(y)
        each = self._mixture(said).log_prob(y.reshape(-1))
        return each.reshape(said["mean"].shape).sum(axis=2) if y.ndim == 2 else each

    def log_score(self, X, y) -> float:
        """Mean log posterior predictive density of targets: larger is better."""
        each: Any = self.log_likelihood(X, y)
        return float(np.mean(logsumexp(each, axis=0) - np.log(len(each))))
