r"""Columns of a table as numbers a network takes, and rows in one order.

Numbers are standardised, by mean and standard deviation of the training rows; a missing one becomes the median and is
marked in a column of its own (only where values were missing in training). True/false are numbers. Text, and pandas'
categories, become one column for each value, 0 or 1: a missing text is a value like others, one that training has not
seen is none of them, and of more than LEVELS the rarest share one column. Columns that never change are left out.

Rows are put in one order, and equal ones are merged with their weights added: a row of weight 2 is two rows, to the
last bit, and the order of rows does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

LEVELS = 50
MISSING = "missing"


@dataclass(frozen=True)
class Number:
    """A column of numbers: (x − center)/scale, `fill` where x is missing, and whether that is marked."""

    name: str
    center: float
    scale: float
    fill: float
    marked: bool

    def encoded(self, raw: np.ndarray) -> list[np.ndarray]:
        if raw.dtype.kind != "f":
            raise ValueError(f"X, column {self.name}: {raw[0]!r} is text, and in training the column held numbers.")
        absent = np.isnan(raw)
        value = (np.where(absent, self.fill, raw) - self.center) / self.scale
        return [value, absent.astype(float)] if self.marked else [value]

    @property
    def names(self) -> list[str]:
        return [self.name, f"{self.name} is missing"] if self.marked else [self.name]


@dataclass(frozen=True)
class Text:
    """A column of text: one column for each value, and for the rare ones together if there are."""

    name: str
    values: tuple[str, ...]
    rare: tuple[str, ...] = ()

    def encoded(self, raw: np.ndarray) -> list[np.ndarray]:
        if raw.dtype.kind == "f":
            if not np.isnan(raw).all():
                raise ValueError(f"X, column {self.name}: it holds numbers, and in training it was text.")
            raw = np.full(len(raw), MISSING)
        columns = [(raw == value).astype(float) for value in self.values]
        return [*columns, np.isin(raw, self.rare).astype(float)] if self.rare else columns

    @property
    def names(self) -> list[str]:
        rare = [f"{self.name} is rare"] if self.rare else []
        return [f"{self.name}={value}" for value in self.values] + rare


@dataclass(frozen=True)
class Constant:
    """A column that never changed, left out."""

    name: str

    def encoded(self, raw: np.ndarray) -> list[np.ndarray]:
        return []

    names = ()


@dataclass(frozen=True)
class Columns:
    """All columns of a table, in order, as found in the training rows."""

    every: tuple[Number | Text | Constant, ...]

    @classmethod
    def fit(cls, raw: list[tuple[str, np.ndarray]], weight: np.ndarray) -> Columns:
        return cls(tuple(_found(name, values, weight) for name, values in raw))

    @property
    def names(self) -> list[str]:
        """Of the columns a network sees."""
        return [name for column in self.every for name in column.names] or ["nothing"]

    def encoded(self, raw: list[tuple[str, np.ndarray]]) -> np.ndarray:
        """(row, column), single precision."""
        n = len(raw[0][1])
        columns = [u for column, (_, values) in zip(self.every, raw, strict=True) for u in column.encoded(values)]
        return np.stack(columns or [np.zeros(n)], axis=1).astype(np.float32)

    def notes(self) -> tuple[str, ...]:
        """What was done, for people."""
        of = lambda kind: [c for c in self.every if isinstance(c, kind)]
        said = []
        if gone := [c.name for c in of(Constant)]:
            said.append(f"Left out, for they never change: {', '.join(gone)}.")
        if marked := [c.name for c in of(Number) if c.marked]:
            said.append(f"Missing numbers are filled with the median and marked: {', '.join(marked)}.")
        if text := of(Text):
            said.append("Text, one column a value: " + ", ".join(f"{c.name} ({len(c.values)})" for c in text) + ".")
        said += [f"{len(c.rare)} rare values of {c.name} share a column." for c in of(Text) if c.rare]
        return tuple(said)


def raw_columns(X: Any) -> list[tuple[str, np.ndarray]]:
    """Name and values of every column of a frame or a matrix: doubles with NaN, or text."""
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


def _values(name: str, column: Any) -> np.ndarray:
    from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype, is_timedelta64_dtype

    if is_datetime64_any_dtype(column) or is_timedelta64_dtype(column):
        raise ValueError(f"X, column {name}: dates and times are no numbers; make numbers of them (a day, a year).")
    if is_numeric_dtype(column) or is_bool_dtype(column):
        values = column.to_numpy(float, na_value=np.nan)
    elif column.isna().all():
        values = np.full(len(column), np.nan)
    else:
        odd = next((v for v in column if isinstance(v, (dict, list, tuple, set))), None)
        if odd is not None:
            raise TypeError(f"X, column {name}: {odd!r}; argument must be a string or a number in every place.")
        return column.astype(object).where(~column.isna(), MISSING).astype(str).to_numpy(str)
    if np.isinf(values).any():
        row = int(np.argmax(np.isinf(values))) + 1
        raise ValueError(f"X, column {name}, row {row}: the value is infinity; repair it or leave it empty (NaN).")
    return values


def _found(name: str, values: np.ndarray, weight: np.ndarray) -> Number | Text | Constant:
    if values.dtype.kind != "f":
        levels, place = np.unique(values, return_inverse=True)
        if len(levels) == 1:
            return Constant(name)
        often = np.bincount(place, weights=weight)
        if len(levels) <= LEVELS:
            return Text(name, tuple(levels.tolist()))
        common = np.sort(np.argsort(-often, kind="stable")[:LEVELS])
        return Text(name, tuple(levels[common].tolist()), tuple(np.delete(levels, common).tolist()))
    known = ~np.isnan(values)
    marked = bool((~known).any())
    if not known.any() or (np.ptp(values[known]) == 0 and not marked):
        return Constant(name)
    center, scale = spread(values[known], weight[known])
    return Number(name, center, scale, _median(values[known], weight[known]), marked)


def spread(values: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation of weighted values, of any size; 1 for the second if they are all equal."""
    if np.ptp(values) == 0:
        return float(values[0]), 1.0
    size = np.abs(values).max()  # squares of very large and very small numbers would leave the doubles
    share, small = weight / weight.sum(), values / size
    mean = share @ small
    deviation = np.sqrt(share @ (small - mean) ** 2)
    return float(mean * size), float(deviation * size) or 1.0


def _median(values: np.ndarray, weight: np.ndarray) -> float:
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])


def merged(raw: list[tuple[str, np.ndarray]], y: np.ndarray, weight: np.ndarray):
    """Rows in one order, equal ones merged: columns, y and weight. Rows without weight are dropped."""
    kept = weight > 0
    codes = [u if u.dtype.kind == "f" else np.unique(u, return_inverse=True)[1].astype(float) for _, u in raw]
    table = np.column_stack([*codes, y])[kept]
    absent = np.isnan(table)
    keys = np.concatenate([np.where(absent, 0.0, table), absent], axis=1)
    order = np.lexsort(keys.T[::-1])
    ordered = keys[order]
    new = np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)])
    first = np.flatnonzero(kept)[order[new]]
    total = np.add.reduceat(weight[kept][order], np.flatnonzero(new))
    return [(name, u[first]) for name, u in raw], y[first], total
