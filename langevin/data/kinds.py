"""What the values of a column are: numbers, true/false, dates or text.

    numbers   also with decimal commas, in a file that has them, and with separators of thousands where these cannot be
              read in another way (1,234,567); not beyond single precision
    dates     ISO 8601: 2024-05-31, 2024-05-31T12:30, 2024-05-31 12:30:05+02:00 (which becomes UTC)
    text      all else, and whole numbers with leading zeros. Text among numbers is refused as a typing error, unless
              the values are codes such as 1, 2, A: few, each of them often. So are dates that are not ISO, numbers with
              units and complex numbers.

A missing value is none of these and is allowed everywhere.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from langevin.data.errors import ColumnError

LARGEST = float(np.finfo(np.float32).max)
EXACT = 2**53  # whole numbers up to here are doubles
FEW, OFTEN, SHARE = 20, 3, 0.05  # codes are so few, each so often, and so much of a column is text
DATE = r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?\s*(?:Z|[+-]\d{2}:?\d{2})?)?"
OTHER_DATE = (
    r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}(?: .*)?|\d{4}[./]\d{1,2}[./]\d{1,2}(?: .*)?|\d{1,2}[ -][A-Za-z]{3,9}[ -]\d{2,4}"
)
THOUSANDS = {".": (r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?", ","), ",": (r"[+-]?\d{1,3}(?:\.\d{3})+(?:,\d+)?", ".")}
AMBIGUOUS = r"[+-]?[1-9]\d{0,2}[.,]\d{3}"
COMPLEX = r"\(?[+-]?[\d.]+(?:e[+-]?\d+)?[+-][\d.]+(?:e[+-]?\d+)?[ij]\)?"
QUANTITY = r"([$€£¥])?\s*[+-]?\d[\d.,' ]*?\s*([^\d\s.,']\S{0,11})?"
LOGICAL = {"true": 1.0, "false": 0.0}


def typed(name: str, column: Any, *, decimal: str = ".", categorical: bool = False) -> Any:
    """A column of a file with the type that its values have: floats, whole numbers, booleans, dates or text."""
    from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype, is_timedelta64_dtype

    if getattr(column.dtype, "kind", "") == "c":
        raise ColumnError(name, "its numbers are complex", "save real and imaginary parts as two columns")
    column = column.reset_index(drop=True)
    if categorical:
        return texts(column).astype("category")
    if is_datetime64_any_dtype(column):
        return dates(name, column)
    if is_timedelta64_dtype(column):
        return column.dt.total_seconds() / 86400
    if is_bool_dtype(column) or hasattr(column.dtype, "categories"):
        return column
    if is_numeric_dtype(column):
        check_numbers(name, column)
        return column
    return column if column.isna().all() else _from_text(name, column, decimal)


def _from_text(name: str, column: Any, decimal: str) -> Any:
    text = texts(column)
    known = text.dropna()
    if known.str.lower().isin(LOGICAL).all():
        return text.str.lower().map(LOGICAL).astype("Float64").astype("boolean")
    iso = known.str.fullmatch(DATE)
    if iso.mean() > 0.5:
        return dates(name, text)
    _refuse(name, known, OTHER_DATE, "is a date, but not in ISO form", "write it as 2024-05-31 or drop the column")
    _refuse(name, known, COMPLEX, "is a complex number", "save real and imaginary parts as two columns")
    if known.str.fullmatch(r"0\d+").any() and known.str.fullmatch(r"\d+").all():
        return text  # codes with leading zeros
    found = _parsed(known, decimal)
    right = found.notna()
    if right.all():
        _refuse_digits(name, known, found)
        made = text.map({}).astype(float)
        made[known.index] = found
        check_numbers(name, made)
        return made
    if right.mean() > 0.5 and not _are_codes(known, right):
        raise ColumnError(
            name,
            f"{known[~right].iloc[0]!r} is no number, as most of the column is",
            "repair it or leave it empty, or name the column in --categorical if its values are codes",
            row=_row(known, ~right),
        )
    _refuse_quantities(name, known)
    return text


def texts(column: Any) -> Any:
    """A column as text without blanks around it, missing where it is missing; 1.0 is written as 1."""
    import pandas as pd

    if column.dtype.kind == "f":
        whole = (column == column.round()) & (column.abs() < EXACT)
        made = column.astype(object)
        made[whole] = column[whole].astype(np.int64)
        column = made
    pairs = zip(column.tolist(), column.isna().tolist(), strict=True)
    made = [None if absent else str(v).strip() or None for v, absent in pairs]
    return pd.Series(made, index=column.index, dtype=object)


def numbers(name: str, column: Any, *, decimal: str = ".", boolean: bool = False) -> np.ndarray:
    """A column as doubles, NaN where a value is missing; what is no number is refused by its row."""
    from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype

    column = column.reset_index(drop=True)
    if is_datetime64_any_dtype(column):
        raise ColumnError(name, "it holds dates, and in training it held numbers")
    if is_numeric_dtype(column) or is_bool_dtype(column):
        if getattr(column.dtype, "kind", "") == "c":
            raise ColumnError(name, "its numbers are complex", "save real and imaginary parts as two columns")
        values = column.to_numpy(float, na_value=np.nan)
    else:
        text = texts(column)
        known = text.dropna()
        found = _parsed(known, decimal)
        if boolean:
            found = found.where(found.notna(), known.str.lower().map(LOGICAL))
        if (wrong := found.isna()).any():
            raise ColumnError(
                name,
                f"{known[wrong].iloc[0]!r} is no {'true or false' if boolean else 'number'}, as in training",
                "repair it or leave it empty",
                row=_row(known, wrong),
            )
        values = found.reindex(column.index).to_numpy(float)
    if np.isinf(values).any():
        row = int(np.argmax(np.isinf(values))) + 1
        raise ColumnError(name, "the value is infinite", "repair it or leave it empty", row=row)
    return values


def dates(name: str, column: Any) -> Any:
    """A column as dates without a zone, of microseconds; what is no ISO date is refused by its row."""
    import pandas as pd
    from pandas.api.types import is_datetime64_any_dtype

    column = column.reset_index(drop=True)
    if is_datetime64_any_dtype(column):
        found = column.dt.tz_convert("UTC").dt.tz_localize(None) if column.dt.tz is not None else column
        return found.astype("datetime64[us]")
    known = texts(column).dropna()
    iso = known.str.fullmatch(DATE)
    moments = pd.to_datetime(known.where(iso), format="ISO8601", utc=True, errors="coerce")
    if (wrong := moments.isna()).any():
        raise ColumnError(
            name,
            f"{known[wrong].iloc[0]!r} is no date, as 2024-05-31 is one",
            "repair it or leave it empty",
            row=_row(known, wrong),
        )
    return moments.dt.tz_localize(None).astype("datetime64[us]").reindex(column.index)


def check_numbers(name: str, column: Any) -> None:
    """Refuse what single precision cannot hold, and whole numbers that doubles cannot tell apart."""
    values = column.to_numpy(float, na_value=np.nan)
    for wrong, words in (
        (np.isinf(values), "the value is infinite"),
        (np.abs(values) > LARGEST, "is beyond the numbers that a network can use (3e38)"),
    ):
        if wrong.any():
            row = int(np.argmax(wrong)) + 1
            told = words if "infinite" in words else f"{values[row - 1]:g} {words}"
            raise ColumnError(name, told, "repair it or leave it empty", row=row)
    if column.dtype.kind in "iu" and len(values) and np.abs(values).max() > EXACT and collapses(column):
        row = int(np.argmax(np.abs(values) > EXACT)) + 1
        raise _too_long(name, column.iloc[row - 1], row)


def _refuse_digits(name: str, known: Any, found: Any) -> None:
    """Whole numbers as text that doubles cannot tell apart."""
    long = found.abs() > EXACT
    if long.any() and known[long].str.fullmatch(r"[+-]?\d+").all() and found[long].nunique() < known[long].nunique():
        raise _too_long(name, known[long].iloc[0], _row(known, long))


def _too_long(name: str, value: Any, row: int) -> ColumnError:
    remedy = f"drop the column, or name it in --categorical {name} if its values are codes"
    return ColumnError(name, f"{value} has more digits than a number can hold", remedy, row=row)


def collapses(column: Any) -> bool:
    """Whether whole numbers become equal as doubles."""
    return len(np.unique(column.to_numpy(float))) < column.nunique()


def _parsed(known: Any, decimal: str) -> Any:
    """Numbers of a column of text, NaN where there is none or two readings are possible."""
    import pandas as pd

    plain = known.str.replace(",", ".", regex=False) if decimal == "," else known
    plain = plain.where(~known.str.contains(".", regex=False), None) if decimal == "," else plain
    found = pd.to_numeric(plain, errors="coerce").astype(float)
    if found.notna().all():
        return found
    form, mark = THOUSANDS[decimal]
    grouped = known.str.fullmatch(form)
    sure = grouped & ~known.str.fullmatch(AMBIGUOUS)
    if sure.any():  # one that has no other reading tells what the mark means in the others
        ungrouped = known.str.replace(mark, "", regex=False).str.replace(decimal, ".", regex=False)
        found = found.where(~grouped, pd.to_numeric(ungrouped.where(grouped), errors="coerce").astype(float))
    elif decimal == "," and not known[found.isna()].str.fullmatch(AMBIGUOUS).any():
        found = found.where(found.notna(), pd.to_numeric(known, errors="coerce").astype(float))
    return found


def _are_codes(known: Any, right: Any) -> bool:
    """Whether numbers with text among them are codes: few values, all of them often."""
    often = known.value_counts()
    return len(often) <= FEW and often.min() >= OFTEN and (~right).mean() >= SHARE


def _refuse(name: str, known: Any, form: str, words: str, remedy: str) -> None:
    matches = known.str.fullmatch(form, case=False)
    if matches.mean() > 0.5:
        raise ColumnError(name, f"{known[matches].iloc[0]!r} {words}", remedy, row=_row(known, matches))


def _refuse_quantities(name: str, known: Any) -> None:
    """Numbers with one unit, or with marks of thousands that have two readings; few of them may be categories."""
    if known.nunique() <= max(FEW, len(known) // 20):
        return
    parts = known.str.extract(f"^{QUANTITY}$")
    matches = known.str.fullmatch(QUANTITY)
    if matches.mean() > 0.9 and parts[matches].fillna("").drop_duplicates().shape[0] == 1:
        if known.str.fullmatch(AMBIGUOUS).mean() > 0.5:
            words, remedy = "may be read with and without a decimal mark", "write it as 1234 or 1.234"
        else:
            words, remedy = "is a number with something beside it", "write the number alone"
        raise ColumnError(
            name, f"{known[matches].iloc[0]!r} {words}", f"{remedy}, or drop the column", row=_row(known, matches)
        )


def _row(known: Any, wrong: Any) -> int:
    """The row, counted from 1, of the first that is wrong."""
    return int(known.index[np.argmax(np.asarray(wrong))]) + 1


def looks_like_data(name: str) -> bool:
    """Whether a column's name would be a value: a number that is no year, or a date."""
    year = re.fullmatch(r"(1[89]|20)\d{2}", name)
    try:
        return not year and np.isfinite(float(name.replace(",", ".")))
    except ValueError:
        return bool(re.fullmatch(DATE, name))
