"""500 mutated tables: read right by the generator's own truth, or refused in one clear sentence."""

import re

import numpy as np
import pytest
from mutations import OUT, cases

from langevin.data.files import DataError
from langevin.data.tables import read, rows
from langevin.estimators.columns import Columns, raw_columns
from langevin.estimators.encodings import Constant

NUMBER = 500


def check(name, case, path):
    """What is wrong, in words; nothing where all is right."""
    path.write_bytes(case.written())
    try:
        table = read(path)
    except DataError as error:
        said = str(error)
        if not case.refused:
            return f"refused: {said}"
        clear = path.name in said and "\n" not in said and len(said) < 500
        right = any(re.search(words, said) for words in case.refused)
        if "columns that cannot be used" in said:  # then all of them are named
            right = all(re.search(words, said) for words in case.refused if "row" in words and "y(" not in words)
        return "" if clear and right else f"refused in other words: {said}"
    if case.refused:
        return f"read, and not refused by {case.refused}"
    return wrong_columns(case, table) or wrong_target(case, table) or wrong_numbers(case, table, path)


def wrong_columns(case, table):
    want = [name for name in list(case.cells)[:-1] if case.kinds[name] != OUT]
    if list(table.X) != want:
        return f"columns {list(table.X)} for {want}"
    for name in want:
        values, column, kind = case.values[name], table.X[name], case.kinds[name]
        absent = np.array([v is None for v in values])
        if (column.isna().to_numpy() != absent).any():
            return f"gaps of {name}"
        known = column[~absent]
        expected = [v for v in values if v is not None]
        if kind in ("number", "boolean"):
            same = known.dtype.kind in "iufb" or str(known.dtype) == "boolean"
            same = same and np.allclose(known.to_numpy(float), expected, rtol=1e-12)
        elif kind == "date":
            same = known.dtype.kind == "M" and known.dt.to_pydatetime().tolist() == expected
        else:
            same = known.astype(str).tolist() == expected
        if not same:
            return f"values of {name}: {known.tolist()[:5]} for {expected[:5]}"
    return ""


def wrong_target(case, table):
    kind = case.kinds[case.target]
    if table.task != ("regression" if kind == "number" else "classification"):
        return f"task {table.task}"
    values = case.values[case.target]
    same = np.allclose(table.y, values, rtol=1e-12) if kind == "number" else table.y.tolist() == values
    return "" if same else "values of the target"


def wrong_numbers(case, table, path):
    """What a network is given, and that rows to predict become the same."""
    raw = raw_columns(table.X)
    columns = Columns.fit(raw, np.ones(len(table.y)))
    x = columns.encoded(raw)
    if not np.isfinite(x).all():
        return "numbers that are not finite"
    for column in columns.every:
        kind = case.kinds[column.name]
        if isinstance(column, Constant) or kind not in ("number", "boolean"):
            continue
        found = x[:, columns.names.index(column.name)] * column.scale + column.center
        known = [i for i, v in enumerate(case.values[column.name]) if v is not None]
        expected = np.array([case.values[column.name][i] for i in known])
        if not np.allclose(found[known], expected, rtol=1e-4, atol=1e-4 * column.scale):
            return f"numbers of {column.name}"
    for name in [c.name for c in columns.every if not isinstance(c, Constant) and case.kinds[c.name] == "text"]:
        levels = [v if v is not None else "missing" for v in case.values[name]]
        if not all(x[i, columns.names.index(f"{name}={v}")] == 1 for i, v in enumerate(levels)):
            return f"levels of {name}"
    again = rows(path, columns.kinds, block=32)
    parts = [columns.encoded(columns.read(f[list(columns.kinds)], decimal=again.decimal)) for f in again.frames]
    return "" if np.array_equal(np.concatenate(parts), x) else "rows to predict become other numbers"


def test_mutated_tables_are_read_right_or_refused_in_words(tmp_path):
    wrong = {}
    for name, case in cases(NUMBER):
        try:
            found = check(name, case, tmp_path / "table.csv")
        except Exception as error:  # a traceback is what this test is after
            found = f"{type(error).__name__}: {error}"
        if found:
            wrong[name] = found
    assert not wrong, "\n".join(f"{k}: {v}" for k, v in wrong.items())


def test_some_are_read_and_some_refused():
    refused = sum(bool(case.refused) for _, case in cases(NUMBER))
    assert 150 < refused < 400


@pytest.mark.slow
def test_mutated_tables_are_fitted_and_predicted(tmp_path):
    """A dozen of them from the file to predictions of the file."""
    from commands import SHORT, call

    good = [(name, case) for name, case in cases(NUMBER) if not case.refused][70:190:10]
    assert len(good) == 12
    for i, (_, case) in enumerate(good):
        (tmp_path / f"{i}.csv").write_bytes(case.written())
        call("fit", tmp_path / f"{i}.csv", *SHORT, "--out", tmp_path / f"m{i}", "--quiet")
        call("predict", tmp_path / f"m{i}", tmp_path / f"{i}.csv", "--out", tmp_path / "p.csv", "--quiet")
        assert len((tmp_path / "p.csv").read_text().splitlines()) == case.rows + 1
