"""Draws from the prior of a network as a chart shows them: functions along an axis, targets, probabilities."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from sklearn.utils.validation import column_or_1d

from langevin.diagnostics.families import mixture
from langevin.estimators.network import NetworkEstimator
from langevin.nets.bnn import BNN

GRID, BEYOND = 200, 0.25  # inputs along the axis, and how far it goes on beyond the rows, of their range
FAMILY = dict(gaussian="gaussian", heteroscedastic="gaussian", poisson="poisson", negative_binomial="negative_binomial")


class Drawn(NamedTuple):
    """targets: (draw, row) in regression; proba: (draw, row, class) in classification.

    line: places along the axis, and what every draw says there, (draw, place); None with more columns than one.
    x, y: of the rows, y None where it is not known; in classification the numbers of classes.
    label: of the axis.
    classes: their names, where they have names.
    """

    targets: np.ndarray
    proba: np.ndarray | None
    line: tuple[np.ndarray, np.ndarray] | None
    x: np.ndarray
    y: np.ndarray | None
    label: str
    classes: list[str] | None = None


def drawn_from(source: Any, X: Any, y: Any, draws: int, key: Any) -> Drawn:
    """Draws of a BNN's prior, or of an estimator's on a table."""
    if isinstance(source, BNN):
        return _of_network(source, X, y, draws, key)
    if isinstance(source, NetworkEstimator):
        return _of_estimator(source, X, y, draws, key)
    raise TypeError(
        f"prior_predictive: this is {type(source).__name__}; give it a BNN, as bnn(…) makes it, or an estimator."
    )


def _of_network(model: BNN, X: Any, y: Any, draws: int, key: Any) -> Drawn:
    if X is None:
        X, y = model.target.data
    x = np.asarray(X, np.float32)
    positions, family = model.prior_draws(key, draws), FAMILY.get(model.predict.network.kind)

    def says(rows: Any) -> dict[str, np.ndarray]:
        said = jax.jit(lambda rows: jax.lax.map(lambda p: model.predict(p, rows), positions, batch_size=16))(rows)
        found = {k: np.asarray(u, np.float64) for k, u in said.items()}
        return found | ({"mean": found["rate"]} if "rate" in found else {})

    said = says(x)
    y = None if y is None else np.asarray(y, float)
    if family is None:
        return Drawn(np.zeros((0, 0)), said["proba"], None, x, y, "x")
    _check_one(said["mean"])
    flat = x[:, None] if x.ndim == 1 else x
    line = None
    if flat.ndim == 2 and flat.shape[1] == 1:
        at = _along(flat[:, 0])
        line = at, says(at.astype(np.float32).reshape(-1, *x.shape[1:]))["mean"]
    targets = mixture(family, said).draw(np.random.RandomState(0))
    return Drawn(targets, None, line, flat[:, 0] if line else x, y, "x")


def _of_estimator(estimator: NetworkEstimator, X: Any, y: Any, draws: int, key: Any) -> Drawn:
    if X is None or y is None:
        raise TypeError(
            f"prior_predictive: {type(estimator).__name__} takes its columns and units from a table; pass X and y."
        )
    own, model = estimator.before(X, y)
    positions = model.prior_draws(key, draws)

    def says(rows: Any) -> dict[str, np.ndarray]:
        parts = list(own._said(own._encoded(rows), positions))
        return {k: np.concatenate([p[k] for p in parts], axis=1) for k in parts[0]}

    said = says(X)
    if "proba" in said:
        codes = np.searchsorted(own.classes_, column_or_1d(y))
        return Drawn(np.zeros((0, 0)), said["proba"], None, np.asarray(X), codes, "", list(map(str, own.classes_)))
    _check_one(said["mean"])
    targets = own._mixture(said).draw(np.random.RandomState(0))
    values, line, label = np.asarray(X), None, str(X.columns[0]) if hasattr(X, "columns") else "x"
    if values.ndim == 2 and values.shape[1] == 1 and values.dtype.kind in "biuf":
        at = _along(values[:, 0].astype(float))
        rows = type(X)({X.columns[0]: at}) if hasattr(X, "columns") else at[:, None]
        line, values = (at, says(rows)["mean"]), values[:, 0].astype(float)
    return Drawn(targets, None, line, values, np.asarray(column_or_1d(y), float), label)


def _along(x: np.ndarray) -> np.ndarray:
    more = BEYOND * (float(x.max()) - float(x.min()))
    return np.linspace(float(x.min()) - more, float(x.max()) + more, GRID)


def _check_one(mean: np.ndarray) -> None:
    if mean.ndim > 2:
        raise ValueError(f"prior_predictive: there are {mean.shape[2]} targets; it draws one.")
