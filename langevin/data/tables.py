"""Tables: reading them, splitting them, and putting them on one scale.

`load` (numbers for a network) and `read` (columns as they are, for an estimator) take the name of an
embedded table (scikit-learn's), a CSV, Parquet or npz file, or the name of a folder under the directory that
the environment variable LANGEVIN_DATA names. What is wrong with a file is said in one sentence, with file,
column and row (rows of data are counted from 1; a header is no row).

Numbers are features as they are, true/false become 1/0, and text becomes one column `name=value` for each
value. A target of text, of true/false, or of two whole numbers makes the task classification, other numbers
make it regression; in npz files whole-number types are labels. `task` says otherwise.

References
    Hernández-Lobato, Adams (2015). Probabilistic backpropagation for scalable learning of Bayesian neural
        networks. ICML. (`published_split`)
    Foong, Li, Hernández-Lobato, Turner (2019). 'In-between' uncertainty in Bayesian neural networks.
        arXiv:1906.11537. (`gap_split`)
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

EMBEDDED = {"diabetes": "progression", "digits": "digit", "breast_cancer": "diagnosis", "wine": "cultivar"}


class DataError(ValueError):
    """Data that cannot be used as they are; the message says what, where, and what to do."""


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
    where, frame, _ = _frame(source, None)
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


# Readers: each returns a frame whose last column is the target unless another was asked for.


def _opened(source, target: str | None):
    """Where, the frame, the target's name and the labels the file names, if it does."""
    where, frame, labels = _frame(source, target)
    if where.endswith(".npz"):
        target = None  # it has been put last
    names = list(frame.columns)
    target = names[-1] if target is None else target
    _check_shape(where, names, target, len(frame))
    return where, frame, target, labels


def _frame(source, target: str | None):
    if str(source) in EMBEDDED:
        where, (frame, labels) = str(source), _embedded(str(source))
    else:
        path = _find(source)
        where, labels = str(path), None
        if path.suffix == ".npz":
            frame, labels = _read_npz(path, target)
        else:
            frame = _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)
    return where, frame.set_axis([str(name) for name in frame.columns], axis=1).reset_index(drop=True), labels


def _find(source) -> Path:
    path, home = Path(source), os.environ.get("LANGEVIN_DATA")
    if path.is_file() and path.suffix in (".csv", ".parquet", ".npz"):
        return path
    if path.suffix or path.is_file():
        raise DataError(f"{path} is no .csv, .parquet or .npz file, or is not there: check the path.")
    if home is None:
        raise DataError(
            f"There is no embedded table {path}: choose from {', '.join(EMBEDDED)}, pass a file, or set "
            "LANGEVIN_DATA to the folder that holds it."
        )
    found = Path(home) / path / f"{path.name}.npz"
    if not found.is_file():
        raise DataError(f"There is no table {path}: neither {', '.join(EMBEDDED)} nor a file {found}.")
    return found


def _embedded(name: str):
    import pandas as pd
    from sklearn import datasets

    options = {"scaled": False} if name == "diabetes" else {}  # natural units: scaling comes later
    data = getattr(datasets, f"load_{name}")(**options)
    frame = pd.DataFrame(data.data, columns=data.feature_names).assign(**{EMBEDDED[name]: data.target})
    return frame, None if name == "diabetes" else data.target_names


def _read_npz(path: Path, target: str | None):
    import pandas as pd

    try:
        with np.load(path) as file:
            data = dict(file)
    except Exception as error:  # truncated zip, pickled objects, not a zip: all kinds
        raise DataError(f"{path} cannot be read as npz ({_line(error)}): save it anew by np.savez.") from error
    name = str(np.ravel(data.get("target_name", "y"))[0])
    key = "y" if target in (None, name) else str(target)
    if "X" not in data or key not in data:
        raise DataError(
            f"{path} holds {', '.join(data)}: X and {key} are needed; rename arrays, or pass another target."
        )
    X, y = data["X"], data[key]
    features = [str(n) for n in data.get("feature_names", [f"x{i}" for i in range(X.shape[-1])])]
    if X.ndim != 2 or y.shape != X.shape[:1] or len(features) != X.shape[1]:
        raise DataError(
            f"{path} holds X of shape {X.shape}, {key} of {y.shape} and {len(features)} feature names: "
            "save X as (n, d), the target as (n,) and d names."
        )
    frame = pd.DataFrame(X, columns=features)
    frame.insert(X.shape[1], name if key == "y" else key, y, allow_duplicates=True)
    labels = data.get("class_names") if key == "y" else None
    return frame, np.unique(y) if labels is None and y.dtype.kind in "iu" else labels


def _read_csv(path: Path):
    import pandas as pd

    try:
        with open(path, encoding="utf-8-sig") as file:
            separator = max(",;\t", key=file.readline().count)
        names = pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str, encoding="utf-8-sig")
        options = {"sep": separator, "skipinitialspace": True, "low_memory": False, "encoding": "utf-8-sig"}
        frame = pd.read_csv(path, na_values=["?"], **options)
    except (OSError, ValueError) as error:  # pandas' and Unicode's errors are ValueErrors
        raise DataError(f"{path} cannot be read as CSV ({_line(error)}): repair the file.") from error
    header = [str(name).strip() for name in names.iloc[0].fillna("")]
    if pd.to_numeric(pd.Series(header), errors="coerce").notna().all():
        raise DataError(f"{path} begins with numbers: put a line of column names before them.")
    if not isinstance(frame.index, pd.RangeIndex):  # pandas takes what is too much for an index
        raise DataError(f"{path}, row 1: there are more values than the {len(header)} column names; repair it.")
    frame.columns = header  # pandas has renamed columns of one name; they are to be seen
    return frame


def _read_parquet(path: Path):
    import pandas as pd

    try:
        return pd.read_parquet(path, engine="pyarrow")
    except ImportError as error:
        raise DataError(
            f"Reading {path} needs pyarrow: run `pip install langevin[parquet]`, or save it as CSV."
        ) from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as Parquet ({_line(error)}): save it anew.") from error


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


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


# Splits and scales.


def split(table: Table | int, seed: int, fractions=(0.8, 0.1, 0.1)) -> tuple[np.ndarray, ...]:
    """Shuffled indices of the parts of a table, or of n rows; the same seed gives the same parts."""
    n = len(table.X) if isinstance(table, Table) else int(table)
    if min(fractions) <= 0 or abs(sum(fractions) - 1) > 1e-9:
        raise DataError(f"split was given fractions {tuple(fractions)}: they must be positive and add to 1.")
    ends = np.round(np.cumsum(fractions) * n).astype(int)
    parts = np.split(np.random.default_rng(seed).permutation(n), ends[:-1])
    if min(map(len, parts)) == 0:
        raise DataError(f"{n} rows cannot be split by {tuple(fractions)}: a part is empty; take fewer parts.")
    return tuple(parts)


def published_split(n: int, i: int) -> tuple[np.ndarray, np.ndarray]:
    """The i-th (from 0) published split of a UCI table of n rows: indices (train, test), 90 % and 10 %."""
    generator = np.random.RandomState(1)
    orders = [generator.choice(n, n, replace=False) for _ in range(i + 1)]
    train = int(np.floor(0.9 * n + 0.5))
    return orders[i][:train], orders[i][train:]


def gap_split(X, feature: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices (train, test): the middle third by that feature is test, so that one must interpolate."""
    order, n = np.argsort(np.asarray(X)[:, feature], kind="stable"), len(X)
    low, high = n // 3, 2 * n // 3
    return np.concatenate([order[:low], order[high:]]), order[low:high]


@dataclass(frozen=True)
class Standard:
    """Standardisation of columns, fitted on training data and applied to any.

    center: mean of each column
    scale: standard deviation of each column; 1 where a column is constant, which is left at zero so
    """

    center: np.ndarray
    scale: np.ndarray

    @classmethod
    def fit(cls, X) -> "Standard":
        """From (n, d), or from a target (n,)."""
        X = np.asarray(X, float)
        constant = np.ptp(X, axis=0) == 0  # exact: the deviation of equal numbers may round to 1e-17
        return cls(np.where(constant, X[0], X.mean(axis=0)), np.where(constant, 1.0, X.std(axis=0)))

    def apply(self, X):
        """To standard units."""
        return (X - self.center) / self.scale

    def undo(self, X):
        """Back to the units of the data."""
        return X * self.scale + self.center

    def undo_scale(self, std):
        """A standard deviation or a width, back to the units of the data."""
        return std * self.scale
