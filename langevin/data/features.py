"""Which columns of a table are features, and of what type; which are left out, and why.

Left out, with a note, are: an unnamed first column of row numbers (an index); identifiers, which are whole numbers or
texts that differ in all rows, under a name like id; texts of which more than half differ (free text), or all do; and
columns without a single value. `keep` keeps one that would be left out, `drop` leaves out others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from langevin.data.errors import ColumnError, DataError, refuse
from langevin.data.files import Opened
from langevin.data.kinds import collapses, looks_like_data, texts, typed

UNNAMED = "index"  # what an unnamed first column of row numbers is called
IDENTIFIER = re.compile(
    r"(?i:(.*[_\s.-])?(id|ids|uuid|guid|rowid|identifier|index|key)|(id|uuid)[_\s.-].*)|.*[a-z]I[dD]"
)
FEW = 20  # so many texts are categories, however short the table


@dataclass(frozen=True)
class Choice:
    """What was asked for.

    drop: columns to leave out
    keep: columns to use that would be left out
    categorical: columns whose values are categories, also where they are numbers
    weights: the column of row weights, or None
    """

    drop: Sequence[str] = ()
    keep: Sequence[str] = ()
    categorical: Sequence[str] = ()
    weights: str | None = None


@dataclass(frozen=True)
class Features:
    """X: a frame of typed columns; identifiers: names of columns that tell rows apart; notes: what was done."""

    X: Any
    identifiers: tuple[str, ...]
    notes: tuple[str, ...]


def check_names(opened: Opened) -> Opened:
    """The table with a name for every column: one for each, and an unnamed first column of row numbers is an index."""
    where, frame = opened.where, opened.frame
    names = list(frame.columns)
    if names and names[0] in ("", "Unnamed: 0"):
        names[0] = UNNAMED if UNNAMED not in names else "row index"
        if not _is_unique(frame.iloc[:, 0]):
            raise DataError(f"{where}: the first column has no name and holds no row numbers; name it.")
    if "" in names:
        raise DataError(f"{where}: column {names.index('') + 1} has no name; name it or remove it.")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{where} has more than one column named {twice!r}: rename all but one.")
    return opened._replace(frame=frame.set_axis(names, axis=1))


def check_header(opened: Opened) -> None:
    """Refuse a first line of data: all columns of numbers have numbers for names, or one has a decimal number."""
    kinds = [c.dtype.kind for _, c in opened.frame.items()]
    of_numbers = [name for name, kind in zip(opened.frame.columns, kinds, strict=True) if kind in "iuf"]
    data = [name for name in of_numbers if looks_like_data(name)]
    if data and (len(data) == len(of_numbers) or any(re.search(r"\d[.,]\d", name) for name in data)):
        raise DataError(f"{opened.where} begins with numbers: put a line of column names before them.")


def choose(opened: Opened, targets: Sequence[str], choice: Choice) -> Features:
    """The features of a table; all columns that cannot be used are named in one error."""
    _check_choice(opened, targets, choice)
    kept, bad, notes = {}, [], []
    gone: dict[str, list[str]] = dict(identifier=[], empty=[], free=[])
    index = opened.frame.columns[0] if opened.frame.columns[0] in (UNNAMED, "row index") else None
    for name in opened.frame.columns:
        if name in targets or name in choice.drop or name == choice.weights:
            continue
        raw = opened.frame[name]
        reason = "" if name in choice.keep else _why_not(name, raw, name == index)
        if reason and name not in choice.categorical:
            gone[reason].append(name)
            continue
        try:
            kept[name] = typed(name, raw, decimal=opened.decimal, categorical=name in choice.categorical)
            if name not in choice.keep and _is_free_text(kept[name]):
                gone["free"].append(name)
                del kept[name]
        except ColumnError as error:
            bad.append(error)
    refuse(opened.where, bad)
    notes += _told(gone, kept)
    if not kept:
        left = ", ".join(n for names in gone.values() for n in names)
        raise DataError(
            f"{opened.where} has no column left to learn from{f' ({left} left out)' if left else ''}: add features, or "
            "keep one by --keep."
        )
    import pandas as pd

    return Features(pd.DataFrame(kept), tuple(gone["identifier"]), tuple(notes))


def row_weights(opened: Opened, name: str) -> np.ndarray:
    """The column of weights: numbers, none missing, none below 0, some above."""
    column = opened.frame[name]
    try:
        column = typed(name, column, decimal=opened.decimal)
        if column.dtype.kind not in "iufb":
            raise ColumnError(name, "weights must be numbers")
        values = column.to_numpy(float, na_value=np.nan)
        wrong = ~(values >= 0)
        if wrong.any():
            row = int(np.argmax(wrong)) + 1
            words = "the weight is missing" if np.isnan(values[row - 1]) else f"the weight is {values[row - 1]:g}"
            raise ColumnError(name, words, "weights must be 0 or more", row=row)
        if not values.sum() > 0:
            raise ColumnError(name, "every weight is 0", "some must be above")
    except ColumnError as error:
        raise DataError(error.sentence(opened.where)) from None
    return values


def _check_choice(opened: Opened, targets: Sequence[str], choice: Choice) -> None:
    flags = {"--drop": choice.drop, "--keep": choice.keep, "--categorical": choice.categorical}
    for flag, names in (flags | {"--weights": [choice.weights] if choice.weights else []}).items():
        for name in names:
            if name not in opened.frame.columns:
                known = ", ".join(opened.frame.columns)
                raise DataError(f"{opened.where} has no column {name!r}, which {flag} names: its columns are {known}.")
            if name in targets:
                raise DataError(f"{opened.where}: {flag} names {name!r}, which is the target.")
    both = next((n for n in choice.drop if n in (*choice.keep, *choice.categorical, choice.weights)), None)
    if both is not None:
        raise DataError(f"{opened.where}: {both!r} is to be dropped and to be used; name it once.")


def _why_not(name: str, column: Any, is_index: bool) -> str:
    """Why a column is left out: "identifier", "empty", or nothing."""
    if column.isna().all():
        return "empty"
    if is_index:
        return "identifier"
    if column.dtype.kind in "iu" and np.abs(column.to_numpy(float)).max() > 2**53 and collapses(column):
        return "identifier" if _is_unique(column) else ""
    if column.dtype.kind == "O" and _is_long(column):
        return "identifier" if _is_unique(column) else ""
    named = IDENTIFIER.fullmatch(name) is not None
    return "identifier" if named and _is_unique(column) else ""


def _is_long(column: Any) -> bool:
    """Whether all are whole numbers of more digits than a double holds, as text."""
    known = texts(column).dropna()
    return bool(known.str.fullmatch(r"[+-]?\d{16,}").all())


def _is_unique(column: Any) -> bool:
    """Whether whole numbers or texts differ in all rows."""
    if column.isna().any() or column.dtype.kind in "bMmc":
        return False
    if column.dtype.kind == "f" and not (column == column.round()).all():
        return False
    return bool(texts(column).is_unique if column.dtype.kind not in "iuf" else column.is_unique)


def _is_free_text(column: Any) -> bool:
    if column.dtype.kind in "iufbMm" or hasattr(column.dtype, "categories") or str(column.dtype) == "boolean":
        return False
    return column.nunique() > max(FEW, len(column) // 2)


def _told(gone: dict[str, list[str]], kept: dict[str, Any]) -> list[str]:
    notes = []
    if names := gone["identifier"]:
        notes.append(f"Left out, for they only tell rows apart: {', '.join(names)} (use one by --keep {names[0]}).")
    if names := gone["free"]:
        notes.append(f"Left out, for most of their texts differ: {', '.join(names)} (use one by --keep {names[0]}).")
    if names := gone["empty"]:
        notes.append(f"Left out, for every value is missing: {', '.join(names)}.")
    if names := [name for name, column in kept.items() if column.dtype.kind == "M"]:
        notes.append(f"Dates become year, month, weekday, days since the first and time of day: {', '.join(names)}.")
    return notes
