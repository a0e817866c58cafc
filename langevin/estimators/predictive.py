"""Predictions of a fitted network: what every draw says, kinds of uncertainty, and rows that are unlike the data.

Rows are taken in blocks of one size, so that a row's answer does not depend on the rows beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from sklearn.utils.validation import check_is_fitted

from langevin.core.kernel import innermost
from langevin.core.posterior import Posterior
from langevin.diagnostics import uncertainty
from langevin.estimators.checks import Checked
from langevin.estimators.columns import Columns
from langevin.vi.independent import Independent
from langevin.vi.laplace import linearized

BLOCK = 256  # rows predicted together


class Predictive(Checked):
    """Predictions, for an estimator that has sampled a network."""

    columns_: Columns
    posterior_: Posterior
    start_: Any
    outliers: float

    # --- what an estimator says --------------------------------------------------------------------------------

    def _net(self) -> Any:
        raise NotImplementedError

    def _unit(self, said: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Predictions in the target's own unit."""
        return said

    def _split(self, said: dict[str, np.ndarray]) -> uncertainty.Split:
        raise NotImplementedError

    def _disagreement(self, said: dict[str, np.ndarray]) -> np.ndarray:
        """How far draws differ on a row: what `is_outlier` goes by. Of several targets (n, k), relative to scales."""
        return self._split(said).epistemic

    # --- what is asked of it -----------------------------------------------------------------------------------

    def predictive(self, X, *, start: bool = False) -> dict[str, np.ndarray]:
        """What every draw says of every row, in the target's unit: {"mean", "std"} (draw, n) or {"proba"}.

        Log-normals have {"log_mean", "log_std"} besides, and negative binomials {"dispersion"}.

        start: what the trained networks say from which the chains set out, the deep ensemble.
        """
        parts = list(self._blocks(X, start=start))
        return {k: np.concatenate([p[k] for p in parts], axis=1) for k in parts[0]}

    def followed(self, X) -> np.ndarray:
        """The mean, or the probability of the last class, that every draw says of some rows: (chain, draw, n)."""
        rows = self._encoded(X)
        said = self._unit(predicting(self.posterior_).predict(self._net().predict, rows))
        return np.asarray(said["mean"] if "mean" in said else said["proba"][..., -1])

    def uncertainty(self, X):
        """Uncertainty of every row: total, aleatoric (noise), epistemic (what more data would remove).

        Standard deviations in regression (total² = aleatoric² + epistemic²), entropies in nats in classification; a
        frame if X is one and there is one target.
        """
        parts = [self._split(said) for said in self._blocks(X)]
        whole = uncertainty.Split(*map(np.concatenate, zip(*parts, strict=True)))
        return like(X, whole._asdict()) if hasattr(X, "columns") and whole.total.ndim == 1 else whole

    def disagreement(self, X) -> np.ndarray:
        """How far the draws differ on every row (n,).

        In regression the standard deviation of the mean, or of its logarithm for log-normals and counts; in
        classification the epistemic entropy.
        """
        return joint(np.concatenate([self._disagreement(said) for said in self._blocks(X)]))

    def is_outlier(self, X) -> np.ndarray:
        """Whether the draws disagree on a row more than on all but a share `outliers` of rows held out in fit."""
        return self.disagreement(X) > self.threshold_

    def _blocks(self, X, *, start: bool = False) -> Iterator[dict[str, np.ndarray]]:
        """Predictions in the target's unit, some rows at a time."""
        check_is_fitted(self)
        x = self._encoded(X)
        return self._said(x, self.start_ if start else None)

    def _encoded(self, X) -> np.ndarray:
        return self.columns_.encoded(self.columns_.read(self._checked_rows(X)))

    def _said(self, x: np.ndarray, draws=None) -> Iterator[dict[str, np.ndarray]]:
        draws, model = self._pooled() if draws is None else draws, self._net()
        for i in range(0, len(x), BLOCK):
            cut = x[i : i + BLOCK]
            full = np.concatenate([cut, np.zeros((BLOCK - len(cut), x.shape[1]), np.float32)])
            said = _of_each(model.predict, draws, full)
            yield self._unit({k: np.asarray(u, np.float64)[:, : len(cut)] for k, u in said.items()})

    def _pooled(self):
        """Positions (draw, …) of equal weight, of all chains that did not diverge."""
        drawn = predicting(self.posterior_).draws
        flat = jax.tree.map(lambda u: np.asarray(u).reshape(-1, *u.shape[2:]), drawn)
        index = self._pooled_places()
        return jax.tree.map(lambda u: u[index], flat)

    def _pooled_places(self) -> np.ndarray:
        """Places of the pooled draws among all of them, chain after chain."""
        weight = self.posterior_.weights().reshape(-1)
        used = weight[weight > 0]
        if np.ptp(used) <= 1e-6 * used.max():
            return np.flatnonzero(weight > 0)
        # systematic resampling
        return np.searchsorted(np.cumsum(weight), (np.arange(len(used)) + 0.5) / len(used)).clip(max=len(weight) - 1)

    def _calibrated(self, rows: list[tuple[str, np.ndarray]]):
        """The disagreement of draws that a share `outliers` of rows held out exceeds."""
        known = [self._disagreement(said) for said in self._said(self.columns_.encoded(rows))]
        self.epistemic_ = np.concatenate(known)
        self.threshold_ = float(np.quantile(joint(self.epistemic_), 1 - self.outliers))
        return self


def predicting(posterior: Posterior) -> Posterior:
    """The posterior, its draws as a network predicts by them: a linearized one by its tangent."""
    drawn = innermost(posterior.kernel)
    return linearized(posterior) if isinstance(drawn, Independent) and drawn.linearized else posterior


@jax.jit
def _of_each(predict, draws, x):
    return jax.lax.map(lambda position: predict(position, x), draws, batch_size=16)


def joint(apart: np.ndarray) -> np.ndarray:
    """One number a row from those of several targets: their root mean square."""
    return apart if apart.ndim == 1 else np.sqrt(np.mean(apart**2, axis=1))


def like(X, columns: dict[str, np.ndarray]):
    """A frame with the rows of X."""
    import pandas as pd

    return pd.DataFrame(columns, index=X.index)
