"""Predictions of a file, block by block: what is read, kept and written is never more than a block."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from langevin.cli.shared import fail, say


def kept_columns(names: Sequence[str], known: Sequence[str], asked: str | None, *, everything: bool) -> list[str]:
    """Columns of the input that stand before the predictions.

    names: of the file's columns
    known: identifiers that were found when the model was fitted
    asked: names that the user gave
    """
    if everything:
        return list(names)
    if asked is None:
        return [name for name in names if name in known or name == "index"]
    wanted = [name.strip() for name in asked.split(",") if name.strip()]
    lost = next((name for name in wanted if name not in names), None)
    if lost is not None:
        fail(f"--id names {lost!r}, and the columns are {', '.join(names)}.")
    return wanted


def predicted(estimator: Any, rows: Any, quantiles: Sequence[float], kept: Sequence[str]) -> Iterator[Any]:
    """A frame for every block of `data.tables.rows`: the columns that are kept, then the predictions."""
    from langevin.data.errors import ColumnError, DataError

    for block in rows.frames:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *_: say(f"! {rows.where}, {message}", error=True)
            try:
                X = _typed(estimator, block, rows.decimal)
                frame = estimator.predict_frame(X, quantiles=quantiles)
            except ColumnError as error:
                raise DataError(error.sentence(rows.where, before=int(block.index[0]))) from None
        clear = {name: f"predicted {name}" for name in frame.columns if name in kept}
        frame = frame.rename(columns=clear)
        for i, name in enumerate(kept):
            frame.insert(i, name, block[name].to_numpy())
        yield frame


def _typed(estimator: Any, block: Any, decimal: str) -> Any:
    """The columns a model was trained with; numbers that are still text are read with the file's decimal mark."""
    X = block[list(estimator.feature_names_in_)]
    text = [c for c in estimator.columns_.every if c.kind in ("number", "boolean") and X[c.name].dtype.kind == "O"]
    return X.assign(**{c.name: c.read(X[c.name], decimal) for c in text})


class Writer:
    """Writes frames of one shape to a .csv or .parquet file, which is complete or absent; else to the screen."""

    def __init__(self, path: Path | None, *, quiet: bool = False):
        self.path, self.quiet, self.begun, self.rows, self.odd = path, quiet, False, 0, 0
        self.file: Any = sys.stdout
        self.temporary: Path | None = None

    def __enter__(self) -> Writer:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
            self.temporary = Path(name)
            os.chmod(handle, 0o666 & ~_umask())
            if self.path.suffix == ".parquet":
                os.close(handle)
            else:
                self.file = open(handle, "w", newline="", encoding="utf-8")
        return self

    def add(self, frame: Any) -> None:
        if self.path is not None and self.path.suffix == ".parquet":
            self._add_parquet(frame)
        elif self.path is not None or not self.quiet:
            frame.to_csv(self.file, index=False, header=not self.begun)
        self.begun, self.rows, self.odd = True, self.rows + len(frame), self.odd + int(frame["outlier"].sum())

    def _add_parquet(self, frame: Any) -> None:
        import pyarrow
        import pyarrow.parquet

        if not self.begun:
            self.schema = pyarrow.Schema.from_pandas(frame, preserve_index=False)
            self.file = pyarrow.parquet.ParquetWriter(self.temporary, self.schema)
        self.file.write_table(pyarrow.Table.from_pandas(frame, schema=self.schema, preserve_index=False))

    def __exit__(self, kind: Any, *_: Any) -> None:
        if self.temporary is None:
            return
        with contextlib.suppress(OSError):
            self.file.close()
        if kind is None and self.path is not None:
            self.temporary.replace(self.path)
        else:
            self.temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
