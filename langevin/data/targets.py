"""The target of a table: numbers, or labels and their places among the classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from langevin.data.errors import ColumnError, DataError
from langevin.data.files import Opened
from langevin.data.kinds import texts, typed


def as_target(opened: Opened, name: str, task: str | None, notes: list[str]) -> tuple[np.ndarray, np.ndarray | None]:
    """Real targets and None, or places in the classes and the classes; notes say what was guessed."""
    try:
        return _as_target(name, opened.frame[name], task, opened, notes)
    except ColumnError as error:
        raise DataError(error.sentence(opened.where)) from None


def _as_target(name: str, raw: Any, task: str | None, opened: Opened, notes: list[str]):
    absent = raw.isna().to_numpy()
    if absent.any():
        words = f"the target is missing{f' ({absent.sum()} rows in all)' if absent.sum() > 1 else ''}"
        raise ColumnError(name, words, "remove the row", row=int(np.argmax(absent)) + 1)
    column = typed(name, raw, decimal=opened.decimal)
    if column.dtype.kind == "M":
        raise ColumnError(name, "dates cannot be predicted", "turn them into a number, such as days", row=1)
    numeric = column.dtype.kind in "iuf" or str(column.dtype) in ("Int64", "Float64")
    if not numeric and task == "regression":
        remedy = "choose another target, or pass task='classification'"
        raise ColumnError(name, f"{str(column.iloc[0])!r} is no number, as regression needs", remedy, row=1)
    y = column.to_numpy(float) if column.dtype.kind == "f" else np.array(_labels(column, numeric).tolist())
    values, places = np.unique(y, return_inverse=True)
    if numeric:
        whole = bool((values == np.round(values)).all())
        if task == "regression" or not (task or opened.labels is not None or (whole and len(values) == 2)):
            if task is None and whole and len(values) <= 10:
                notes.append(f"{name} is read as a number; pass task='classification' if it is a label.")
            return y.astype(float), None
    if len(values) < 2:
        raise ColumnError(name, f"every label is {values[0]!r}", "two or more are needed")
    if len(values) > max(20, len(y) // 2):
        words = f"{len(values)} different labels in {len(y)} rows are no classes"
        raise ColumnError(name, words, "choose another target, or pass task='regression' if they are numbers")
    labels = opened.labels
    named = labels is not None and np.array_equal(values, np.arange(len(labels)))
    return places.astype(np.int64), np.asarray(labels) if named else values


def _labels(column: Any, numeric: bool) -> Any:
    """Labels as they are written; true and false as pandas reads them."""
    if numeric:
        return column
    return column.astype(str) if column.dtype.kind == "b" or str(column.dtype) == "boolean" else texts(column)
