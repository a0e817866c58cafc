"""Tables: what is in them, checked.

`load` (numbers for a network) and `read` (columns as they are, for an estimator) take the name of an
embedded table (scikit-learn's), a CSV, Parquet or npz file, or the name of a folder under the directory that
the environment variable LANGEVIN_DATA names. What is wrong with a file is said in one sentence, with file,
column and row (rows of data are counted from 1; a header is no row).

Numbers are features as they are, true/false become 1/0, and text becomes one column `name=value` for each
value. A target of text, of true/false, or of two whole numbers makes the task classification, other numbers
make it regression; in npz files whole-number types are labels. `task` says otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from langevin.data.files import DataError, frame_of


@dataclass(frozen=True)
class Table:
    """A table of n examples.

    X: features (n, d)
    y: targets (n,): real numbers, or in classification the place of each label in `classes`
    feature_names: one for each column of X
    target_name: what y is
    task: "regression" or "classification"
    classes: the labels, or None in regression
    name: the table's own name
    notes: what was done to the data on reading them
    """

    X: np.ndarray
    y: np.ndarray
    feature_names: tuple[str, ...]
    target_name: str
    task: str
    classes: np.ndarray | None
    name: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Frame:
    """A table as it is in its file, checked: what an estimator takes.

    X: features, a frame, gaps and text included
    y: numbers (n,), or labels
    target_name: what y is
    task: "regression" or "classification"
    name: the table's own name
    notes: what was guessed on reading
    """

    X: Any
    y: np.ndarray
    target_name: str
    task: str
    name: str
    notes: tuple[str, ...] = ()


def read(source, target: str | None = None, *, task: str | None = None) -> Frame:
    """Read a table by name or path and leave its columns as they are.

    target: the column to predict (default: the last)
    task: "regression" or "classification" (default: by the type of the target, and said in `notes`)
    """
    if task not in (None, "regression", "classification"):
        raise ValueError(f"the task is {task!r}; it must be regression or classification.")
    where, frame, target, labels = _opened(source, target)
    for name in frame.columns:
        if name != target:
            _feature(where, name, frame[name], "mean", [])  # what cannot be used is said now
    notes: list[str] = []
    y, classes = _target(where, frame[target], task, labels, notes)
    kind = "regression" if classes is None else "classification"
    if task is None:
        what = f"{len(classes)} labels" if classes is not None else "numbers"
        notes.insert(0, f"The column {target} holds {what}: this is {kind}.")
    X = frame.drop(columns=target)
    return Frame(X, y if classes is None else classes[y], target, kind, Path(where).stem, tuple(notes))


def rows(source, names: Sequence[str]) -> Any:
    """The columns of these names of a file, as a frame, checked: rows to predict."""
    where, frame, _ = frame_of(source, None)
    lost = [name for name in names if name not in frame.columns]
    if lost:
        raise DataError(f"{where} has no column {lost[0]!r}, which the model was trained with; add it.")
    _check_names(where, list(frame.columns))
    if not len(frame):
        raise DataError(f"{where} has no rows of data.")
    for name in names:
        if not frame[name].isna().all():
            _check_text(where, name, frame[name])
            if frame[name].dtype.kind == "f":
                _check_finite(where, name, frame[name].to_numpy(float))
    return frame[list(names)]


def load(source, target: str | None = None, *, task: str | None = None, missing: str = "raise") -> Table:
    """Read a table by name or path.

    target: the column to predict (default: the last); for npz files an array (default: y)
    task: "regression" or "classification" (default: by the type of the target)
    missing: for missing numbers, "raise", or "mean" to put the column's mean and say so in `notes`
    """
    if task not in (None, "regression", "classification") or missing not in ("raise", "mean"):
        raise DataError(
            f"load was given task={task!r} and missing={missing!r}: pass task 'regression', 'classification' "
            "or None, and missing 'raise' or 'mean'."
        )
    where, frame, target, labels = _opened(source, target)
    features: dict[str, np.ndarray] = {}
    notes: list[str] = []
    for name in frame.columns:
        if name != target:
            features |= _feature(where, name, frame[name], missing, notes)
    y, classes = _target(where, frame[target], task, labels, notes)
    X, kind = np.stack(list(features.values()), axis=1), "regression" if classes is None else "classification"
    return Table(X, y, tuple(features), target, kind, classes, Path(where).stem, tuple(notes))


def _opened(source, target: str | None):
    """Where, the frame, the target's name and the labels the file names, if it does."""
    where, frame, labels = frame_of(source, target)
    if where.endswith(".npz"):
        target = None  # it has been put last
    names = list(frame.columns)
    target = names[-1] if target is None else target
    _check_shape(where, names, target, len(frame))
    return where, frame, target, labels


# Columns: each check names the file, the column and the row.


def _check_shape(where: str, names: list[str], target: str, rows: int) -> None:
    _check_names(where, names)
    if target not in names:
        raise DataError(f"{where} has no column {target!r}: its columns are {', '.join(names)}.")
    if len(names) < 2:
        raise DataError(f"{where} has the column {target!r} alone: a feature is needed beside the target.")
    if rows < 3:
        raise DataError(f"{where} has {rows} rows of data: at least 3 are needed to fit and to test.")


def _check_names(where: str, names: list[str]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{where} has more than one column named {twice!r}: rename all but one.")


def _feature(where: str, name: str, column, missing: str, notes: list[str]) -> dict[str, np.ndarray]:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    absent = column.isna()
    if absent.all():
        raise DataError(f"{where}, column {name}: every value is missing; drop the column.")
    if is_numeric_dtype(column) and not (is_bool_dtype(column) and absent.any()):
        values = column.to_numpy(float, na_value=np.nan)
        if absent.any() and missing == "raise":
            raise DataError(
                f"{where}, column {name}, row {_row(absent)}: a value is missing ({absent.sum()} in all); "
                "fill it in, or pass missing='mean' to put the column's mean."
            )
        _check_finite(where, name, values)
        if absent.any():
            values = np.where(absent, np.nanmean(values), values)
            notes.append(f"{absent.sum()} missing values of {name} were put to the column's mean.")
        return {name: values}

    _check_text(where, name, column)
    if absent.any():
        notes.append(f"{absent.sum()} missing values of {name} are the value '{name}=missing'.")
    text = column.astype(object).where(~absent, "missing").astype(str).to_numpy(str)
    values = np.unique(text)
    if len(values) > max(20, len(text) // 2):
        raise DataError(
            f"{where}, column {name}: {len(values)} different texts in {len(text)} rows are no categories; "
            "drop the column or turn it into numbers."
        )
    return {f"{name}={value}": (text == value).astype(float) for value in values}


def _target(where: str, column, task, labels, notes: list[str]) -> tuple[np.ndarray, np.ndarray | None]:
    """Real targets and None, or places in the classes and the classes; `labels` are those the file names."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    name, absent = column.name, column.isna()
    if absent.any():
        raise DataError(f"{where}, column {name}, row {_row(absent)}: the target is missing; remove the row.")
    numeric = is_numeric_dtype(column) and not is_bool_dtype(column)
    if not numeric and task == "regression":
        raise DataError(
            f"{where}, column {name}, row 1: {str(column.iloc[0])!r} is no number, as regression needs; "
            "choose another target, or pass task='classification'."
        )
    if not numeric:
        _check_text(where, name, column)
    y = np.array((column if numeric else column.astype(str)).tolist())
    values, places = np.unique(y, return_inverse=True)
    if numeric:
        _check_finite(where, name, y.astype(float))
        whole = bool((values == np.round(values)).all())
        if task == "regression" or not (task or labels is not None or (whole and len(values) == 2)):
            if task is None and whole and len(values) <= 10:
                notes.append(f"{name} is read as a number; pass task='classification' if it is a label.")
            return y.astype(float), None
    if len(values) < 2:
        raise DataError(f"{where}, column {name}: every label is {values[0]!r}; two or more are needed.")
    named = labels is not None and np.array_equal(values, np.arange(len(labels)))
    return places.astype(np.int64), np.asarray(labels) if named else values


def _check_text(where: str, name: str, column) -> None:
    """Refuse text among numbers: one typing error would make a category of every number."""
    import pandas as pd

    known = column.dropna().astype(str)
    parsed = pd.to_numeric(known, errors="coerce").notna()
    if 0.5 < parsed.mean() < 1:
        row = int(known.index[np.argmin(parsed)]) + 1
        raise DataError(
            f"{where}, column {name}, row {row}: {str(column.iloc[row - 1])!r} is no number, as most of the "
            "column is; repair it or leave it empty."
        )


def _check_finite(where: str, name: str, values: np.ndarray) -> None:
    if np.isinf(values).any():
        raise DataError(f"{where}, column {name}, row {_row(np.isinf(values))}: the value is infinite; repair it.")


def _row(mask) -> int:
    return int(np.argmax(np.asarray(mask))) + 1
