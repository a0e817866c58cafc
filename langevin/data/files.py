"""Files of tables: finding and reading them, as a frame whose last column is the target unless another was asked for.

A name is one of the embedded tables (scikit-learn's, and `airfoil`), a CSV, Parquet or npz file, or a folder under the
directory that the environment variable LANGEVIN_DATA names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from langevin.data import delimited
from langevin.data.errors import DataError

AIRFOIL = "airfoil"  # airfoil.csv beside this file: Brooks, Pope & Marcolini (1989), UCI, CC BY 4.0 (see NOTICE)
EMBEDDED = {
    "diabetes": "progression",
    "digits": "digit",
    "breast_cancer": "diagnosis",
    "wine": "cultivar",
    AIRFOIL: "scaled_sound_pressure_db",
}


class Opened(NamedTuple):
    """A file as it is read.

    where: its path, or the name of an embedded table
    frame: its columns; numbers and true/false where every value is one, text otherwise
    labels: those that the file names, if it does
    decimal: the mark of its numbers that are still text
    """

    where: str
    frame: Any
    labels: Any
    decimal: str


class Blocks(NamedTuple):
    """A file in blocks of rows.

    where: its path
    names: of its columns
    total: how many rows there are
    decimal: the mark of numbers that are still text
    frames: the blocks, in order
    """

    where: str
    names: tuple[str, ...]
    total: int
    decimal: str
    frames: Iterator[Any]


def _too_long(frame: Any) -> set[str]:
    """Columns of whole numbers that were read as doubles, with more digits than these have."""
    large = {name: c for name, c in frame.items() if c.dtype.kind == "f" and c.abs().max() > 2**53}
    return {str(name) for name, c in large.items() if c.abs().max() < 1e30 and (c.dropna() % 1 == 0).all()}


def as_read(name: str) -> bool:
    """No column stays text that can be read as numbers."""
    return False


def open_table(source, target: str | None, *, text: Callable[[str], bool] = as_read) -> Opened:
    """The whole of a table; columns that `text` is true of stay as they are written."""
    decimal, labels = ".", None
    if str(source) in EMBEDDED:
        where, (frame, labels) = str(source), _embedded(str(source))
    else:
        path = find(source)
        where = str(path)
        if path.suffix == ".npz":
            frame, labels = _read_npz(path, target)
        elif path.suffix == ".parquet":
            frame = _read_parquet(path)
        else:
            form = _form(path)
            delimited.check_rows(path, form)
            frame, decimal = delimited.read(path, form, text=text), form.decimal
            if long := _too_long(frame):  # a double has lost their last digits
                frame = delimited.read(path, form, text=lambda name: name in long or text(name))
    frame = frame.set_axis([str(name).strip() for name in frame.columns], axis=1).reset_index(drop=True)
    return Opened(where, frame, labels, decimal)


def open_blocks(source, rows: int, *, text: Callable[[str], bool] = as_read) -> Blocks:
    """A table in blocks of so many rows, of which one at a time is in memory; other than CSV and Parquet in one."""
    path = None if str(source) in EMBEDDED else find(source)
    if path is None or path.suffix == ".npz":
        where, frame, _, decimal = open_table(source, None)
        return Blocks(where, tuple(frame.columns), len(frame), decimal, iter([frame]))
    if path.suffix == ".parquet":
        return _parquet_blocks(path, rows)
    form = _form(path)
    total = delimited.check_rows(path, form)
    frames = _csv_blocks(path, form, rows, text) if total else iter(())
    return Blocks(str(path), form.names, total, form.decimal, frames)


def _csv_blocks(path: Path, form: delimited.Form, rows: int, text: Callable[[str], bool]) -> Iterator[Any]:
    try:
        with delimited.read(path, form, text=text, block=rows) as reader:
            yield from map(delimited.clean, reader)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as CSV ({_line(error)}): repair the file.") from None


def _form(path: Path) -> delimited.Form:
    try:
        form = delimited.form_of(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read as CSV ({_line(error)}): repair the file.") from error
    return form


def find(source) -> Path:
    """The file that a name or path means."""
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

    if name == AIRFOIL:
        return pd.read_csv(Path(__file__).with_name("airfoil.csv")), None
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
    if X.dtype.kind == "c" or y.dtype.kind == "c":
        which = "X" if X.dtype.kind == "c" else key
        raise DataError(f"{path}: {which} holds complex numbers; save real and imaginary parts as two columns.")
    features = [str(n) for n in data.get("feature_names", [f"x{i}" for i in range(X.shape[-1] if X.ndim else 0)])]
    if X.ndim != 2 or y.shape != X.shape[:1] or len(features) != X.shape[1]:
        raise DataError(
            f"{path} holds X of shape {X.shape}, {key} of {y.shape} and {len(features)} feature names: "
            "save X as (n, d), the target as (n,) and d names."
        )
    frame = pd.DataFrame(X, columns=features)
    frame.insert(X.shape[1], name if key == "y" else key, y, allow_duplicates=True)
    labels = data.get("class_names") if key == "y" else None
    return frame, np.unique(y) if labels is None and y.dtype.kind in "iu" else labels


def _read_parquet(path: Path):
    import pandas as pd

    try:
        return pd.read_parquet(path, engine="pyarrow")
    except ImportError as error:
        raise _without_pyarrow(path) from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as Parquet ({_line(error)}): save it anew.") from error


def _parquet_blocks(path: Path, rows: int) -> Blocks:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise _without_pyarrow(path) from error
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as Parquet ({_line(error)}): save it anew.") from error

    def frames() -> Iterator[Any]:
        begun = 0
        for batch in file.iter_batches(batch_size=rows):
            frame = batch.to_pandas().reset_index(drop=True)
            frame.index += begun
            begun += len(frame)
            yield frame.rename(columns=str)

    index = (file.schema_arrow.pandas_metadata or {}).get("index_columns", ())
    names = [str(name) for name in file.schema_arrow.names if name not in index]
    return Blocks(str(path), tuple(names), file.metadata.num_rows, ".", frames())


def _without_pyarrow(path: Path) -> DataError:
    return DataError(f"Reading {path} needs pyarrow: run `pip install langevin[parquet]`, or save it as CSV.")


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
