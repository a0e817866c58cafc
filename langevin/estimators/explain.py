r"""What drives a prediction: which columns it needs, and how it changes with one of them.

Permutation importance of a column is the increase of the mean negative log predictive density (NLL) of rows when the
values of the column are shuffled among them, which breaks what the column says and keeps how it is distributed:

    I = 1/n Σ_i d_i,    d_i = mean over shuffles of NLL_i(shuffled) − NLL_i,    standard error  sd(d)/√n.

The rows should be new to the model. Of columns that say the same, each alone may seem unimportant.

Partial dependence on a column at a value v is the prediction, averaged over rows, when the column is v in all of them.
It is taken of every draw of the posterior; the band holds a share of the draws (epistemic uncertainty, no noise).

Both use few draws, evenly spaced, and few rows, drawn at random, since the costs grow with their product.

References
----------
Breiman (2001), Random forests, §10.
Friedman (2001), Greedy function approximation: a gradient boosting machine, §8.2.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from scipy.special import logsumexp
from sklearn.utils.validation import check_is_fitted

from langevin.core.posterior import Posterior
from langevin.core.types import Info

DRAWS, ROWS = 48, 256


class Explained:
    """What drives the predictions of an estimator that has sampled a network."""

    posterior_: Posterior

    def permutation_importance(
        self,
        X: Any,
        y: Any,
        *,
        columns: Sequence[Any] | None = None,
        repeats: int = 5,
        rows: int = ROWS,
        draws: int = DRAWS,
        random_state: int = 0,
    ):
        """How much worse new rows (X, y) are predicted when a column is shuffled: a frame, the most important first.

        Its columns are `increase` (of NLL, in nats a row) and `stderr` (over rows), its index the columns of X.

        columns: which to shuffle, by name, or by number where X is a matrix; all if left out.
        repeats: shuffles of each column.
        rows, draws: how many are used at most.
        """
        import pandas as pd

        check_is_fitted(self)
        random = np.random.default_rng(random_state)
        few, places = _thinned(self, draws), _some(len(y), rows, random)
        X, y = _rows(X, places), np.asarray(y)[places]
        shuffles = [random.permutation(len(y)) for _ in range(repeats)]
        before, found = _nll(few, X, y), {}
        for column in _named(X) if columns is None else columns:
            after = np.mean([_nll(few, _with(X, column, _values(X, column, s)), y) for s in shuffles], axis=0)
            d = after - before
            stderr = float(d.std(ddof=1) / np.sqrt(len(d))) if len(d) > 1 else float("nan")
            found[column] = (float(d.mean()), stderr)
        table = pd.DataFrame.from_dict(found, orient="index", columns=["increase", "stderr"])
        return table.sort_values("increase", ascending=False, kind="stable")

    def partial_dependence(
        self,
        X: Any,
        column: Any,
        *,
        points: int = 20,
        level: float = 0.9,
        rows: int = ROWS // 2,
        draws: int = DRAWS,
        random_state: int = 0,
    ):
        """The prediction, averaged over rows, as a column changes: a frame of `value`, `mean`, `low` and `high`.

        low, high: between them lies a share `level` of the draws of the posterior. In classification there is a row
        for every value and class, with the class in a column `class`, and the prediction is its probability.

        column: by name, or by number where X is a matrix.
        points: values at most: evenly spaced quantiles of a column of numbers, or the commonest of text.
        rows, draws: how many are used at most.
        """
        import pandas as pd

        check_is_fitted(self)
        few = _thinned(self, draws)
        places, names = _grid(X, column, points)
        X_some = _rows(X, _some(len(X), rows, np.random.default_rng(random_state)))
        said = [few.predictive(_with(X_some, column, _values(X, column, np.full(len(X_some), i)))) for i in places]
        each = np.stack([s["mean" if "mean" in s else "proba"].mean(axis=1) for s in said], axis=1)
        low, high = np.quantile(each, [(1 - level) / 2, (1 + level) / 2], axis=0)
        if each.ndim == 2:
            return pd.DataFrame(dict(value=names, mean=each.mean(axis=0), low=low, high=high))
        classes = few.classes_
        kinds = dict(value=np.repeat(np.asarray(names, object), len(classes)), **{"class": list(classes) * len(names)})
        return pd.DataFrame(kinds | dict(mean=each.mean(axis=0).ravel(), low=low.ravel(), high=high.ravel()))


def _thinned(model: Any, most: int) -> Any:
    """The model with at most so many of its pooled draws, evenly spaced, as one chain."""
    flat, model = model._pooled(), copy.copy(model)
    n = len(jax.tree.leaves(flat)[0])
    places = np.linspace(0, n - 1, min(most, n)).round().astype(int)
    zero = np.zeros((1, len(places)))
    info = Info(*[zero] * (len(Info._fields) - 1), ok=np.ones(zero.shape, bool))
    draws = jax.tree.map(lambda u: u[None, places], flat)
    model.posterior_ = dataclasses.replace(model.posterior_, draws=draws, info=info)
    return model


def _nll(model: Any, X: Any, y: np.ndarray) -> np.ndarray:
    """Negative log predictive density of each row."""
    each = model.log_likelihood(X, y)
    return np.log(len(each)) - logsumexp(each, axis=0)


def _some(n: int, most: int, random: np.random.Generator) -> np.ndarray:
    return np.arange(n) if n <= most else np.sort(random.permutation(n)[:most])


def _rows(X: Any, places: np.ndarray) -> Any:
    return X.iloc[places] if hasattr(X, "iloc") else np.asarray(X)[places]


def _named(X: Any) -> list[Any]:
    return list(X.columns) if hasattr(X, "columns") else list(range(np.asarray(X).shape[1]))


def _values(X: Any, column: Any, places: np.ndarray) -> Any:
    """Values of a column in other rows; of a frame with their type."""
    if hasattr(X, "columns"):
        if column not in X.columns:
            raise ValueError(f"X has no column {column!r}: its columns are {', '.join(map(str, X.columns))}.")
        return X[column].iloc[places]
    X = np.asarray(X)
    if not (isinstance(column, int | np.integer) and 0 <= column < X.shape[1]):
        raise ValueError(f"X is a matrix of {X.shape[1]} columns and has none {column!r}: pass a number from 0.")
    return X[places, column]


def _with(X: Any, column: Any, values: Any) -> Any:
    """X with other values in a column."""
    X = X.copy() if hasattr(X, "columns") else np.array(X)
    if hasattr(X, "columns"):
        X[column] = values.set_axis(X.index)
    else:
        X[:, column] = values
    return X


def _grid(X: Any, column: Any, points: int) -> tuple[np.ndarray, list[Any]]:
    """Rows whose values of a column are taken, and these values: quantiles of numbers and dates, levels of text."""
    import pandas as pd

    values = pd.Series(_values(X, column, np.arange(len(X)))).reset_index(drop=True).dropna()
    if not len(values):
        raise ValueError(f"partial_dependence: the column {column!r} has no value in these rows; pass other rows.")
    numbers = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    if numbers or pd.api.types.is_datetime64_any_dtype(values):
        order = values.sort_values(kind="stable")
        chosen = order.iloc[np.linspace(0, len(order) - 1, min(points, len(order))).round().astype(int)]
        chosen = chosen[~chosen.duplicated()]
    else:
        common = values.astype(str).value_counts(sort=True).index[:points]
        first = values[~values.astype(str).duplicated()]
        chosen = first[first.astype(str).isin(common)]
        chosen = chosen.iloc[np.argsort(chosen.astype(str).to_numpy(), kind="stable")]
    return chosen.index.to_numpy(), chosen.tolist()
