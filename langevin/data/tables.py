"""Tables: what is in them, checked.

`load` (numbers for a network) and `read` (columns as they are, for an estimator) take the name of an
embedded table (scikit-learn's), a CSV, Parquet or npz file, or the name of a folder under the directory that
the environment variable LANGEVIN_DATA names. What is wrong with a file is said in one sentence, with file,
column and row (rows of data are counted from 1; a header is no row); all columns that cannot be used are named at once.

Types of columns are those of `data.kinds`, and which columns are features is said in `data.features`. A target of text,
of true/false, or of two whole numbers makes the task classification, other numbers make it regression; in npz files
whole-number types are labels. `task` says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from langevin.data.errors import ColumnError, DataError, refuse
from langevin.data.features import Choice, check_header, check_names, choose, row_weights
from langevin.data.files import Opened, open_blocks, open_table
from langevin.data.kinds import typed
from langevin.data.targets import as_target

TASKS = ("regression", "classification")
LEVELS = 50  # texts that `load` gives a column of their own
BLOCK = 51_200  # rows of a file that are in memory at a time


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

    X: features, a frame of typed columns, gaps and text included
    y: numbers (n,), or (n, target) of several targets, or labels
    target_name: what y is; of several targets their names with commas between
    task: "regression" or "classification"
    name: the table's own name
    notes: what was guessed and left out on reading
    weights: of the rows (n,), None where they count alike
    identifiers: columns that were left out because they only tell rows apart
    targets: the name of every target
    """

    X: Any
    y: np.ndarray
    target_name: str
    task: str
    name: str
    notes: tuple[str, ...] = ()
    weights: np.ndarray | None = None
    identifiers: tuple[str, ...] = ()
    targets: tuple[str, ...] = field(default=())

    def named(self, rows: np.ndarray) -> Any:
        """Targets of some rows; several with their names, which predictions have too."""
        import pandas as pd

        return self.y[rows] if self.y.ndim == 1 else pd.DataFrame(self.y[rows], columns=list(self.targets))

    def only(self, target: str) -> Frame:
        """The table with one of its targets."""
        if self.y.ndim == 1:
            return self
        return replace(self, y=self.y[:, self.targets.index(target)], target_name=target, targets=(target,))


def read(
    source,
    target: str | Sequence[str] | None = None,
    *,
    task: str | None = None,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    categorical: Sequence[str] = (),
    weights: str | None = None,
) -> Frame:
    """Read a table by name or path and give every column its type.

    target: the column to predict (default: the last); several make a regression with several targets
    task: "regression" or "classification" (default: by the type of the target, and said in `notes`)
    drop: columns to leave out
    keep: columns to use that would be left out, as identifiers are
    categorical: columns whose values are categories although they are numbers
    weights: the column of row weights
    """
    if task not in (None, *TASKS):
        raise ValueError(f"the task is {task!r}; it must be regression or classification.")
    choice = Choice(tuple(drop), tuple(keep), tuple(categorical), weights)
    opened, targets = _opened(source, target, choice)
    found = choose(opened, targets, choice)
    notes: list[str] = []
    said = [as_target(opened, name, task if len(targets) == 1 else "regression", notes) for name in targets]
    y, classes = said[0]
    kind = "regression" if classes is None else "classification"
    if task is None:
        what = f"{len(classes)} labels" if classes is not None else "numbers"
        named = f"column {targets[0]} holds" if len(targets) == 1 else f"columns {', '.join(targets)} hold"
        notes.insert(0, f"The {named} {what}: this is {kind}.")
    if len(targets) > 1 and (classes is not None or task == "classification"):
        raise DataError(f"{opened.where}: several targets must be numbers; predict the labels one by one.")
    return Frame(
        X=found.X,
        y=(y if classes is None else classes[y]) if len(targets) == 1 else np.stack([v for v, _ in said], axis=1),
        target_name=", ".join(targets),
        task=kind,
        name=Path(opened.where).stem,
        notes=(*notes, *found.notes),
        weights=row_weights(opened, weights) if weights else None,
        identifiers=found.identifiers,
        targets=targets,
    )


@dataclass(frozen=True)
class Rows:
    """Rows to predict, some at a time.

    where: the file
    names: of its columns
    total: how many rows there are
    decimal: the mark of numbers that are still text
    frames: blocks of them with all columns; the index counts rows from 0
    """

    where: str
    names: tuple[str, ...]
    total: int
    decimal: str
    frames: Iterator[Any]


def rows(source, kinds: Mapping[str, str], *, block: int = BLOCK, as_written: bool = False) -> Rows:
    """Rows of a file, to be predicted by a model.

    kinds: "number", "boolean", "date" or "text" for each column the model was trained with, which must be there
    as_written: read numbers as text too, to write them again as they were
    """
    numbers = set() if as_written else {name for name, kind in kinds.items() if kind == "number"}
    opened = open_blocks(source, block, text=lambda name: name not in numbers)
    first, *rest = opened.names or ("",)
    names = ("index" if first in ("", "Unnamed: 0") else first, *rest)
    check_names(Opened(opened.where, _nothing(names), None, "."))
    if lost := [name for name in kinds if name not in names]:
        which = f"column {lost[0]!r}" if len(lost) == 1 else f"columns {', '.join(map(repr, lost))}"
        it = "it" if len(lost) == 1 else "them"
        raise DataError(f"{opened.where} has no {which}, which the model was trained with; add {it}.")
    if not opened.total:
        raise DataError(f"{opened.where} has no rows of data.")
    frames = (frame.set_axis(list(names), axis=1) for frame in opened.frames)
    return Rows(opened.where, names, opened.total, opened.decimal, frames)


def _nothing(names: Sequence[str]) -> Any:
    import pandas as pd

    return pd.DataFrame([range(len(names))], columns=list(names))


def load(source, target: str | None = None, *, task: str | None = None, missing: str = "raise") -> Table:
    """Read a table by name or path, all of it as numbers.

    Numbers are features as they are, true/false become 1/0, dates days since 1970, and text becomes one column
    `name=value` for each of its 50 most frequent values.

    target: the column to predict (default: the last); for npz files an array (default: y)
    task: "regression" or "classification" (default: by the type of the target)
    missing: for missing numbers, "raise", or "mean" to put the column's mean and say so in `notes`
    """
    if task not in (None, *TASKS) or missing not in ("raise", "mean"):
        raise DataError(
            f"load was given task={task!r} and missing={missing!r}: pass task 'regression', 'classification' "
            "or None, and missing 'raise' or 'mean'."
        )
    opened, (name_of_target,) = _opened(source, target, Choice())
    features: dict[str, np.ndarray] = {}
    notes: list[str] = []
    bad = []
    for name in opened.frame.columns:
        if name != name_of_target:
            try:
                features |= _feature(name, opened.frame[name], opened.decimal, missing, notes)
            except ColumnError as error:
                bad.append(error)
    refuse(opened.where, bad)
    y, classes = as_target(opened, name_of_target, task, notes)
    X, kind = np.stack(list(features.values()), axis=1), "regression" if classes is None else "classification"
    return Table(X, y, tuple(features), name_of_target, kind, classes, Path(opened.where).stem, tuple(notes))


def _opened(source, target: str | Sequence[str] | None, choice: Choice) -> tuple[Opened, tuple[str, ...]]:
    """The table, and the names of its targets."""
    asked = [target] if isinstance(target, str) else list(target or ())
    opened = open_table(source, asked[0] if len(asked) == 1 else None, text=lambda name: name in choice.categorical)
    if opened.where.endswith(".npz") and len(asked) <= 1:
        asked = []  # it has been put last
    check_header(opened)
    opened = check_names(opened)
    names = [name for name in opened.frame.columns if name not in (*choice.drop, choice.weights)]
    if len(asked) == 1 and asked[0] not in names and "," in asked[0]:
        asked = [name.strip() for name in asked[0].split(",")]
    asked = asked or names[-1:]
    _check_shape(opened, asked)
    return opened, tuple(asked)


def _check_shape(opened: Opened, targets: Sequence[str]) -> None:
    names, where = list(opened.frame.columns), opened.where
    for target in targets:
        if target not in names:
            raise DataError(f"{where} has no column {target!r}: its columns are {', '.join(names)}.")
        if targets.count(target) > 1:
            raise DataError(f"{where}: the target {target!r} is named twice.")
    if len(names) <= len(targets):
        raise DataError(f"{where} has the column {targets[0]!r} alone: a feature is needed beside the target.")
    if len(opened.frame) < 3:
        raise DataError(f"{where} has {len(opened.frame)} rows of data: at least 3 are needed to fit and to test.")


def _feature(name: str, column: Any, decimal: str, missing: str, notes: list[str]) -> dict[str, np.ndarray]:
    absent = column.isna().to_numpy()
    if absent.all():
        raise ColumnError(name, "every value is missing", "drop the column")
    column = typed(name, column, decimal=decimal)
    if column.dtype.kind == "M":
        days = (column - np.datetime64("1970-01-01")).dt.total_seconds() / 86400
        column = days
    if column.dtype.kind in "iufb" or str(column.dtype) in ("boolean", "Int64", "Float64"):
        values = column.to_numpy(float, na_value=np.nan)
        if absent.any() and missing == "raise":
            words = f"a value is missing ({absent.sum()} in all)"
            remedy = "fill it in, or pass missing='mean' to put the column's mean"
            raise ColumnError(name, words, remedy, row=int(np.argmax(absent)) + 1)
        if absent.any():
            values = np.where(absent, np.nanmean(values), values)
            notes.append(f"{absent.sum()} missing values of {name} were put to the column's mean.")
        return {name: values}
    if absent.any():
        notes.append(f"{absent.sum()} missing values of {name} are the value '{name}=missing'.")
    text = column.astype(object).where(~absent, "missing").astype(str)
    often = text.value_counts()
    if len(often) > max(20, len(text) // 2):
        words = f"{len(often)} different texts in {len(text)} rows are no categories"
        raise ColumnError(name, words, "drop the column or turn it into numbers")
    if len(often) > LEVELS:
        notes.append(
            f"The {LEVELS} most frequent of {len(often)} values of {name} have a column each, the others none."
        )
    return {f"{name}={value}": (text == value).to_numpy(float) for value in sorted(often.index[:LEVELS])}
