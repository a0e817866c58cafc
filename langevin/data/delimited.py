"""CSV files: encoding, separator and decimal mark are found in the file, and all rows are counted before one is read.

A row must have as many values as the first line has names. The separator is the one of `, ; tab |` that gives all of
the first lines the same number of values. Commas are decimal marks where one of the first rows has a number that can
be read in no other way (1,5 or 0,123, but not 1,234).
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langevin.data.errors import DataError

GAPS = ("?", "-", "--")  # beside those of pandas
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "nan", "NaN", "null", "NULL", "None", *GAPS)
SEPARATORS = ";\t|,"  # where two fit, a comma is the less likely: it may be a decimal mark
HEAD = 1000  # rows that tell what a file is like
DECIMAL_COMMA = re.compile(r"[+-]?(\d+,(\d{1,2}|\d{4,})|\d{4,},\d+|0,\d+|,\d+)([eE][+-]?\d+)?")
LEADING_ZERO = re.compile(r"0\d+")


@dataclass(frozen=True)
class Form:
    """How a CSV file is written.

    encoding, separator, decimal: of the text
    names: of the columns, without blanks around them; "" where there is none
    codes: columns of whole numbers some of which have leading zeros, which are text
    """

    encoding: str
    separator: str
    decimal: str
    names: tuple[str, ...]
    codes: tuple[str, ...]


def form_of(path: Path) -> Form:
    """Look at the first rows of a file."""
    with open(path, "rb") as file:
        start = file.read(4)
    encoding = "utf-16" if start[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        with open(path, encoding=encoding, newline="") as file:
            lines = [line for line in itertools.islice(file, HEAD + 1) if line.strip()]
    except UnicodeError as error:
        raise DataError(f"{path} cannot be read as CSV ({error}): save it as UTF-8 text.") from None
    if not lines:
        raise DataError(f"{path} cannot be read as CSV: it is empty.")
    separator = max(SEPARATORS, key=lambda mark: _fits(lines[:20], mark))
    names, *rows = list(_values(lines, separator)) or [[]]
    names = [name.strip() for name in names]
    cells = list(zip(*(row for row in rows if len(row) == len(names)), strict=True))
    comma = any(DECIMAL_COMMA.fullmatch(value.strip()) for column in cells for value in column)
    codes = [
        n for n, column in zip(names, cells, strict=False) if any(LEADING_ZERO.fullmatch(v.strip()) for v in column)
    ]
    return Form(encoding, separator, "," if comma else ".", tuple(names), tuple(codes))


def _fits(lines: list[str], mark: str) -> tuple[bool, int]:
    """Whether this separator gives all lines the same number of values, more than one; and how many names it gives."""
    widths = [len(values) for values in _values(lines, mark)] or [1]
    return widths[0] > 1 and len(set(widths)) == 1, widths[0]


def _values(lines: Iterable[str], mark: str) -> Iterator[list[str]]:
    try:
        for values in csv.reader(lines, delimiter=mark, skipinitialspace=True):
            if values:
                yield values
    except csv.Error:  # said by `check_rows`, which knows the file
        return


def check_rows(path: Path, form: Form) -> int:
    """The number of rows, each of which has a value for every name."""
    row, want = 0, len(form.names)
    try:
        with open(path, encoding=form.encoding, newline="") as file:
            rows = csv.reader(file, delimiter=form.separator, skipinitialspace=True)
            next((values for values in rows if values), None)
            for values in rows:
                if len(values) < 2 and not "".join(values).strip():
                    continue
                row += 1
                if len(values) != want:
                    raise DataError(
                        f"{path} cannot be read as CSV: line {rows.line_num}, row {row} has {len(values)} values, and "
                        f"the first line has {want} names; repair it."
                    )
    except (csv.Error, UnicodeError) as error:
        raise DataError(f"{path} cannot be read as CSV after row {row} ({error}): repair the file.") from None
    return row


def read(path: Path, form: Form, *, text: Callable[[str], bool], block: int | None = None) -> Any:
    """The frame, or with `block` frames of so many rows; columns that `text` is true of stay as they are written."""
    import pandas as pd

    kept = lambda name: name in form.codes or text(name)
    known = len(set(form.names)) == len(form.names)  # names twice are refused later, by whoever knows the file
    names = list(form.names) if known else list(range(len(form.names)))
    options: dict[str, Any] = dict(sep=form.separator, decimal=form.decimal, encoding=form.encoding)
    options |= dict(header=0, names=names, index_col=False, skipinitialspace=True, na_values=list(GAPS))
    options |= dict(dtype={name: str for name in names if known and kept(name)}, low_memory=False, chunksize=block)
    try:
        found = pd.read_csv(path, **options)
    except (OSError, ValueError) as error:  # pandas' errors are ValueErrors
        raise DataError(f"{path} cannot be read as CSV ({' '.join(str(error).split())}): repair the file.") from None
    return found if block else clean(found).set_axis(list(form.names), axis=1)


def clean(frame: Any) -> Any:
    """Text without blanks behind it, which may hide that a value is missing."""
    for i, kind in enumerate(frame.dtypes):
        if kind.kind == "O":
            column = frame.iloc[:, i]
            text = column.map(lambda v: v.rstrip() if isinstance(v, str) else v)
            frame.isetitem(i, text.mask(text.isin(MISSING)) if not text.equals(column) else column)
    return frame
