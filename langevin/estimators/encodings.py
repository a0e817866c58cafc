"""Encodings of single columns, as learnt from training rows: what a value becomes for a network.

Each has `kind`, the type of values in rows to predict ("number", "boolean", "date" or "text"), `read`, which
converts a column of any type to it or says which row cannot be, and `write`, which fills `width` columns of numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from langevin.core.record import record
from langevin.data import kinds

LEVELS = 50
MISSING = "missing"
FAR = 1e6  # standard deviations from the mean, beyond which a number counts as this far
DAY = np.timedelta64(1, "D")


@record
class Labels:
    """A column of text: `levels`, sorted, and the place of every row's among them."""

    levels: np.ndarray
    codes: np.ndarray

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index) -> Labels:
        return Labels(self.levels, self.codes[index])


def labels_of(column: Any) -> Labels:
    """Text of any column, an array included; a missing value is a level of its own."""
    import pandas as pd

    text = kinds.texts(column if hasattr(column, "iloc") else pd.Series(column))
    codes, levels = pd.factorize(text.fillna(MISSING), sort=True)
    return Labels(np.array(levels.tolist(), dtype=str), codes.astype(np.int32))


@dataclass(frozen=True)
class Number:
    """A column of numbers: (x − center)/scale, `fill` where x is missing, and whether that is marked.

    boolean: all were 0 or 1, so that true and false may stand for them
    """

    name: str
    center: float
    scale: float
    fill: float
    marked: bool
    boolean: bool = False

    @property
    def kind(self) -> str:
        return "boolean" if self.boolean else "number"

    @property
    def names(self) -> list[str]:
        return [self.name, f"{self.name} is missing"] if self.marked else [self.name]

    def read(self, column: Any, decimal: str = ".") -> np.ndarray:
        return kinds.numbers(self.name, column, decimal=decimal, boolean=self.boolean)

    def write(self, out: np.ndarray, values: np.ndarray) -> None:
        absent = np.isnan(values)
        with np.errstate(over="ignore"):  # it is cut below
            out[:, 0] = np.clip((np.where(absent, self.fill, values) - self.center) / self.scale, -FAR, FAR)
        if self.marked:
            out[:, 1] = absent

    def far(self, values: np.ndarray) -> np.ndarray:
        """Which values are cut."""
        with np.errstate(over="ignore"):
            return np.abs(values / self.scale - self.center / self.scale) > FAR


@dataclass(frozen=True)
class Text:
    """A column of text: one column for each value, and for the rare ones together if there are."""

    name: str
    values: tuple[str, ...]
    rare: tuple[str, ...] = ()
    kind: ClassVar[str] = "text"

    @property
    def names(self) -> list[str]:
        rare = [f"{self.name} is rare"] if self.rare else []
        return [f"{self.name}={value}" for value in self.values] + rare

    def read(self, column: Any, decimal: str = ".") -> Labels:
        return labels_of(column)

    def write(self, out: np.ndarray, values: Labels) -> None:
        place = {value: i for i, value in enumerate(self.values)} | dict.fromkeys(self.rare, len(self.values))
        at = np.array([place.get(level, -1) for level in values.levels.tolist()], np.int64)[values.codes]
        rows = np.flatnonzero(at >= 0)  # a value that training has not seen is none of them
        out[rows, at[rows]] = 1


@dataclass(frozen=True)
class Date:
    """A column of dates: year, month, weekday (0 is Monday), days since the first, and the hour, where they vary.

    first: the earliest of the training rows, in microseconds since 1970
    parts: how each of them is encoded
    marked: whether a missing date is marked
    """

    name: str
    first: int
    parts: tuple[Any, ...]
    marked: bool
    kind: ClassVar[str] = "date"

    @classmethod
    def fit(cls, name: str, values: np.ndarray, weight: np.ndarray) -> Date | Constant:
        known = values[~np.isnat(values)]
        if not len(known):
            return Constant(name)
        first = int(known.min().astype("datetime64[us]").astype(np.int64))
        found = [fit_numbers(part, u, weight) for part, u in calendar(name, values, first).items()]
        parts = tuple(replace(p, marked=False, boolean=False) if isinstance(p, Number) else p for p in found)
        marked = len(known) < len(values)
        return cls(name, first, parts, marked) if marked or any(p.names for p in parts) else Constant(name)

    @property
    def names(self) -> list[str]:
        marks = [f"{self.name} is missing"] if self.marked else []
        return [name for part in self.parts for name in part.names] + marks

    def read(self, column: Any, decimal: str = ".") -> np.ndarray:
        return kinds.dates(self.name, column).to_numpy()

    def write(self, out: np.ndarray, values: np.ndarray) -> None:
        i = 0
        for part, numbers in zip(self.parts, calendar(self.name, values, self.first).values(), strict=True):
            part.write(out[:, i : i + len(part.names)], numbers)
            i += len(part.names)
        if self.marked:
            out[:, i] = np.isnat(values)


@dataclass(frozen=True)
class Constant:
    """A column that never changed, left out; whatever is in it is not looked at."""

    name: str
    kind: ClassVar[str] = "text"
    names: ClassVar[tuple[str, ...]] = ()

    def read(self, column: Any, decimal: str = ".") -> np.ndarray:
        return np.zeros(len(column))

    def write(self, out: np.ndarray, values: np.ndarray) -> None:
        pass


Encoding = Number | Text | Date | Constant


def fit(name: str, values: np.ndarray | Labels, weight: np.ndarray) -> Encoding:
    """The encoding of a column, from its training rows."""
    if isinstance(values, Labels):
        return _fit_labels(name, values, weight)
    return Date.fit(name, values, weight) if values.dtype.kind == "M" else fit_numbers(name, values, weight)


def _fit_labels(name: str, values: Labels, weight: np.ndarray) -> Text | Constant:
    often = np.bincount(values.codes, weights=weight, minlength=len(values.levels))
    there = np.flatnonzero(np.bincount(values.codes, minlength=len(values.levels)))
    levels = values.levels[there]
    if len(levels) == 1:
        return Constant(name)
    if len(levels) <= LEVELS:
        return Text(name, tuple(levels.tolist()))
    common = np.sort(np.argsort(-often[there], kind="stable")[:LEVELS])
    return Text(name, tuple(levels[common].tolist()), tuple(np.delete(levels, common).tolist()))


def fit_numbers(name: str, values: np.ndarray, weight: np.ndarray) -> Number | Constant:
    """The encoding of a column of numbers."""
    known = ~np.isnan(values)
    marked = bool((~known).any())
    if not known.any() or (np.ptp(values[known]) == 0 and not marked):
        return Constant(name)
    center, scale = spread(values[known], weight[known])
    boolean = bool(np.isin(values[known], (0.0, 1.0)).all())
    return Number(name, center, scale, _median(values[known], weight[known]), marked, boolean)


def calendar(name: str, values: np.ndarray, first: int) -> dict[str, np.ndarray]:
    """Parts of dates as numbers, NaN where a date is missing."""
    absent = np.isnat(values)
    days = values.astype("datetime64[D]")
    month = values.astype("datetime64[M]")
    year = values.astype("datetime64[Y]")
    start = np.datetime64(first, "us").astype("datetime64[D]")
    parts = {
        "year": year.astype(np.int64) + 1970,
        "month": (month - year.astype("datetime64[M]")).astype(np.int64) + 1,
        "weekday": (days.astype(np.int64) + 3) % 7,
        "days": (days - start) / DAY,
        "hour": (values - days) / np.timedelta64(1, "h"),
    }
    return {f"{name} {part}": np.where(absent, np.nan, u) for part, u in parts.items()}


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
