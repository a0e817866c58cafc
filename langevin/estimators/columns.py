r"""Columns of a table as numbers a network takes, and rows in one order.

Numbers are standardised, by mean and standard deviation of the training rows; a missing one becomes the median and is
marked in a column of its own (only where values were missing in training). True/false are numbers. Text, and pandas'
categories, become one column for each value, 0 or 1: a missing text is a value like others, one that training has not
seen is none of them, and of more than LEVELS the rarest share one column. Dates become year, month, weekday, days since
the first, and hour. Columns that never change are left out.

The types are learnt in training and applied in prediction: rows to predict may come as text, as whole numbers or with
columns that are empty. A value that cannot be converted is refused by column and row. A number that is more than a
million standard deviations from the mean is taken to be that far, with a warning.

Rows are put in one order, and equal ones are merged with their weights added: a row of weight 2 is two rows, to the
last bit, and the order of rows does not matter.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from langevin.data import kinds
from langevin.estimators import encodings
from langevin.estimators.encodings import FAR, LEVELS, MISSING, Constant, Date, Encoding, Labels, Number, Text
from langevin.estimators.encodings import labels_of as _labels_of

__all__ = ["LEVELS", "MISSING", "Columns", "merged", "names_of", "raw_columns", "spread"]
spread = encodings.spread
Raw = list[tuple[str, Any]]  # name and values: doubles with NaN, dates or Labels


@dataclass(frozen=True)
class Columns:
    """All columns of a table, in order, as found in the training rows."""

    every: tuple[Encoding, ...]

    @classmethod
    def fit(cls, raw: Raw, weight: np.ndarray) -> Columns:
        return cls(tuple(encodings.fit(name, _as_raw(values), weight) for name, values in raw))

    @property
    def names(self) -> list[str]:
        """Of the columns a network sees."""
        return [name for column in self.every for name in column.names] or ["nothing"]

    @property
    def kinds(self) -> dict[str, str]:
        """The type of every column of the table: "number", "boolean", "date" or "text"."""
        return {column.name: column.kind for column in self.every}

    def read(self, X: Any, *, decimal: str = ".") -> Raw:
        """Rows to predict, a frame or a matrix, with the types learnt; ColumnError says what cannot be converted."""
        if not hasattr(X, "columns"):
            return raw_columns(X)
        raw = [(c.name, c.read(X.iloc[:, i], decimal)) for i, c in enumerate(self.every)]
        self._warn(raw, X.index)
        return raw

    def _warn(self, raw: Raw, index: Any) -> None:
        """Of values that are cut."""
        import pandas as pd

        for column, (name, values) in zip(self.every, raw, strict=True):
            far = column.far(values) if isinstance(column, Number) else np.zeros(0, bool)
            if far.any():
                row = int(np.argmax(far))
                place = int(index[row]) if isinstance(index, pd.RangeIndex) else row
                more = f" (as are {far.sum() - 1} more)" if far.sum() > 1 else ""
                warnings.warn(
                    f"column {name}, row {place + 1}: {values[row]:g} is more than {FAR:,.0f} standard deviations from "
                    f"the training data and is taken to be so far{more}.",
                    stacklevel=2,
                )

    def encoded(self, raw: Raw) -> np.ndarray:
        """(row, column), single precision."""
        values = [_as_raw(u) for _, u in raw]
        out, i = np.zeros((len(values[0]), len(self.names)), np.float32), 0
        for column, u in zip(self.every, values, strict=True):
            width = len(column.names)
            column.write(out[:, i : i + width], u)
            i += width
        return out

    def notes(self) -> tuple[str, ...]:
        """What was done, for people."""
        of = lambda kind: [c for c in self.every if isinstance(c, kind)]
        said = []
        if gone := [c.name for c in of(Constant)]:
            said.append(f"Left out, for they never change: {', '.join(gone)}.")
        if marked := [c.name for c in [*of(Number), *of(Date)] if c.marked]:
            said.append(f"Missing numbers are filled with the median and marked: {', '.join(marked)}.")
        if text := of(Text):
            said.append("Text, one column a value: " + ", ".join(f"{c.name} ({len(c.values)})" for c in text) + ".")
        said += [f"{len(c.rare)} rare values of {c.name} share a column." for c in of(Text) if c.rare]
        said += [f"The date {c.name} is used as {', '.join(c.names)}." for c in of(Date)]
        return tuple(said)


def raw_columns(X: Any) -> Raw:
    """Name and values of every column of a frame or a matrix: doubles with NaN, dates or text."""
    if not hasattr(X, "columns"):
        return [(f"x{i}", np.asarray(column, float)) for i, column in enumerate(np.asarray(X).T)]
    return [(name, _values(name, X.iloc[:, i])) for i, name in enumerate(names_of(X))]


def names_of(frame: Any) -> list[str]:
    """Of the columns of a frame, each once."""
    names = [str(name) for name in frame.columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"X has more than one column named {twice!r}: rename all but one.")
    return names


def _values(name: str, column: Any) -> Any:
    """A column of a frame by its own type; text that is ISO dates throughout is dates."""
    from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype, is_timedelta64_dtype

    if is_datetime64_any_dtype(column):
        return kinds.dates(name, column).to_numpy()
    if is_timedelta64_dtype(column):
        return (column.dt.total_seconds() / 86400).to_numpy(float)
    if is_numeric_dtype(column) or is_bool_dtype(column):
        if column.dtype.kind in "iu" and len(column) and np.abs(column.to_numpy(float)).max() > kinds.EXACT:
            kinds.check_numbers(name, column.reset_index(drop=True))
        return kinds.numbers(name, column)
    if column.isna().all():
        return np.full(len(column), np.nan)
    if hasattr(column.dtype, "categories"):
        return _labels_of(column)
    known = column[column.notna().to_numpy()]
    if column.dtype == object:
        odd = next((v for v in known if isinstance(v, (dict, list, tuple, set))), None)
        if odd is not None:
            raise TypeError(f"X, column {name}: {odd!r}; argument must be a string or a number in every place.")
        if all(isinstance(v, (Real, np.bool_)) for v in known):
            return kinds.numbers(name, column.astype("float64"))
    if known.astype(str).str.fullmatch(kinds.DATE).all():
        return kinds.dates(name, column).to_numpy()
    return _labels_of(column)


def _as_raw(values: Any) -> Any:
    return values if isinstance(values, Labels) or values.dtype.kind in "fM" else _labels_of(values)


def merged(raw: Raw, y: np.ndarray, weight: np.ndarray) -> tuple[Raw, np.ndarray, np.ndarray]:
    """Rows in one order, equal ones merged: columns, y and weight. Rows without weight are dropped."""
    kept = np.flatnonzero(weight > 0)
    keys = np.column_stack([*(_sortable(u)[kept] for _, u in raw), y[kept]])
    order = np.lexsort(keys.T[::-1])
    ordered = keys[order]
    new = np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)])
    total = np.add.reduceat(weight[kept][order], np.flatnonzero(new))
    first = kept[order[new]]
    return [(name, u[first]) for name, u in raw], y[first], total


def _sortable(values: Any) -> np.ndarray:
    """Numbers in the order of the values; a missing one is below all."""
    if isinstance(values, Labels):
        return values.codes.astype(float)
    if values.dtype.kind == "M":
        return np.where(np.isnat(values), -np.inf, values.astype(np.int64).astype(float))
    return np.where(np.isnan(values), -np.inf, values) + 0.0  # −0 is 0
