"""Files of tables: finding and reading them, as a frame whose last column is the target unless another was asked for.

A name is one of the embedded tables (scikit-learn's, and `airfoil`), a CSV, Parquet or npz file, or a folder under the
directory that the environment variable LANGEVIN_DATA names.
"""

import os
from pathlib import Path

import numpy as np

AIRFOIL = "airfoil"  # airfoil.csv beside this file: Brooks, Pope & Marcolini (1989), UCI, CC BY 4.0 (see NOTICE)
EMBEDDED = {
    "diabetes": "progression",
    "digits": "digit",
    "breast_cancer": "diagnosis",
    "wine": "cultivar",
    AIRFOIL: "scaled_sound_pressure_db",
}


class DataError(ValueError):
    """Data that cannot be used as they are; the message says what, where, and what to do."""


def frame_of(source, target: str | None):
    """Where it was found, the frame, and the labels the file names, if it does."""
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


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
