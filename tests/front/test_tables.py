"""Reading tables (and saying what is wrong with them), splits, and scales."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from langevin.data.files import DataError
from langevin.data.parts import Standard, gap_split, published_split, split
from langevin.data.tables import load, read

DATA = os.environ.get("LANGEVIN_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="LANGEVIN_DATA is not set")


@pytest.fixture
def csv(tmp_path):
    def write(text, name="t.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.mark.parametrize(
    ("name", "shape", "classes"),
    [
        ("diabetes", (442, 10), None),
        ("digits", (1797, 64), 10),
        ("breast_cancer", (569, 30), 2),
        ("wine", (178, 13), 3),
        ("airfoil", (1503, 5), None),
    ],
)
def test_embedded(name, shape, classes):
    table = load(name)
    assert table.X.shape == shape
    assert table.X.dtype == float
    assert len(table.feature_names) == shape[1]
    assert table.name == name
    if classes is None:
        assert table.task == "regression"
        assert table.classes is None
        assert table.y.dtype == float
    else:
        assert table.task == "classification"
        assert len(table.classes) == classes
        np.testing.assert_array_equal(np.unique(table.y), np.arange(classes))


def test_embedded_labels():
    table = load("breast_cancer")
    assert (table.classes[table.y] == "benign").sum() == 357


def test_csv_of_all_kinds(csv):
    table = load(csv("a, colour ,flag,y\n1,red,True,0.5\n2,blue,False,1.5\n3.5,red,True,2\n"))
    assert table.feature_names == ("a", "colour=blue", "colour=red", "flag")
    np.testing.assert_array_equal(table.X, [[1, 0, 1, 1], [2, 1, 0, 0], [3.5, 0, 1, 1]])
    np.testing.assert_array_equal(table.y, [0.5, 1.5, 2.0])
    assert (table.task, table.target_name, table.name, table.notes) == ("regression", "y", "t", ())


def test_csv_target_by_name_and_separator(csv):
    table = load(csv("﻿y;a;b\n1.5;2;3\n2.5;3;5\n3.5;4;4\n"), "y")  # byte order mark and all
    np.testing.assert_array_equal(table.X, [[2, 3], [3, 5], [4, 4]])
    np.testing.assert_array_equal(table.y, [1.5, 2.5, 3.5])


def test_csv_tasks(csv):
    text = csv("a,y\n1,no\n2,yes\n3,no\n")
    table = load(text)
    assert table.task == "classification"
    np.testing.assert_array_equal(table.y, [0, 1, 0])
    np.testing.assert_array_equal(table.classes, ["no", "yes"])
    two = csv("a,y\n1,7\n2,9\n3,9\n", "two.csv")
    np.testing.assert_array_equal(load(two).classes, [7, 9])
    np.testing.assert_array_equal(load(two, task="regression").y, [7.0, 9.0, 9.0])
    three = csv("a,y\n1,1\n2,2\n3,3\n", "three.csv")
    assert load(three).task == "regression"
    assert "task='classification'" in load(three).notes[0]
    np.testing.assert_array_equal(load(three, task="classification").y, [0, 1, 2])
    logical = csv("a,y\n1,true\n2,false\n3,true\n", "logical.csv")
    np.testing.assert_array_equal(load(logical).y, [1, 0, 1])


def test_missing_values(csv):
    path = csv("a,c,y\n1,u,1.1\n?,,2.2\n5,v,3.3\n,u,4.4\n")
    with pytest.raises(DataError, match=r"t\.csv, column a, row 2: a value is missing \(2 in all\).*'mean'"):
        load(path)
    table = load(path, missing="mean")
    np.testing.assert_array_equal(table.X[:, 0], [1, 3, 5, 3])
    assert table.feature_names == ("a", "c=missing", "c=u", "c=v")
    assert table.notes == (
        "2 missing values of a were put to the column's mean.",
        "1 missing values of c are the value 'c=missing'.",
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,a,y\n1,2,3\n1,2,3\n1,2,3\n", "more than one column named 'a'"),
        ("a,y\n1,2\n3,4\n", "has 2 rows of data: at least 3"),
        ("a,y\n", "has 0 rows"),
        ("", "cannot be read as CSV"),
        (b"a,y\n\xff\xfe\x00,1\n", "cannot be read as CSV"),
        ("a,y\n1,2\n1,2,3\n1,2\n", "line 3, row 2 has 3 values, and the first line has 2 names"),
        ("a,y\n1,2,3\n1,2,3\n1,2,3\n", "row 1 has 3 values, and the first line has 2 names"),
        ("1,2\n3,4\n5,6\n7,8\n", "begins with numbers"),
        ("a,b,y\n1,,3\n1,,3\n1,,4\n", "column b: every value is missing"),
        ("a,y\n1,\n2,\n3,\n", "column y, row 1: the target is missing"),
        ("a,y\n1,1.5\n2,\n3,2.5\n", "column y, row 2: the target is missing"),
        ("a,y\n1,1.5\n2,2.5\ninf,2.5\n", "column a, row 3: the value is infinite"),
        ("a,y\n1,1.5\n2,2.5\n2,-inf\n", "column y, row 3: the value is infinite"),
        ("a,y\n1,1.5\n2,2.5\n,4\nx3,3.5\n", "column a, row 4: 'x3' is no number"),
        ("a,y\n1,1.5\n2,2.5\n3,1.o\n", "column y, row 3: '1.o' is no number"),
        ("y\n1\n2\n3\n", "column 'y' alone"),
        ("a,y\n1,no\n2,no\n3,no\n", "every label is"),
        ("a,y\n" + "".join(f"name {i},{i}\n" for i in range(30)), "30 different texts in 30 rows"),
    ],
)
def test_what_is_wrong_with_a_csv(csv, text, words):
    with pytest.raises(DataError, match=words) as caught:
        load(csv(text))
    assert "t.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_wrong_with_a_call(csv, tmp_path, monkeypatch):
    path = csv("a,y\n1,no\n2,yes\n3,no\n")
    with pytest.raises(DataError, match="no column 'z': its columns are a, y"):
        load(path, "z")
    with pytest.raises(DataError, match=r"column y, row 1: 'no' is no number, as regression needs"):
        load(path, task="regression")
    with pytest.raises(DataError, match="task 'regression'"):
        load(path, task="regress")
    with pytest.raises(DataError, match=r"nothing\.csv .* not there"):
        load(tmp_path / "nothing.csv")
    with pytest.raises(DataError, match="no .csv, .parquet or .npz".replace(".", r"\.")):
        load(csv("a,y\n", "t.xlsx"))
    monkeypatch.delenv("LANGEVIN_DATA", raising=False)
    with pytest.raises(DataError, match="no embedded table iris: choose from diabetes"):
        load("iris")
    monkeypatch.setenv("LANGEVIN_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"no table iris.*iris\.npz"):
        load("iris")


def test_npz(tmp_path, monkeypatch):
    X = np.arange(8.0).reshape(4, 2)
    (tmp_path / "mine").mkdir()
    path = tmp_path / "mine" / "mine.npz"
    y, y2 = np.array([0.5, 1.5, 2.5, 3.5]), np.array([9.5, 8.5, 7.5, 6.5])
    np.savez(path, X=X, y=y, y2=y2, feature_names=["a", "b"], target_name=["load"])
    monkeypatch.setenv("LANGEVIN_DATA", str(tmp_path))
    for target in (None, "y", "load"):
        table = load("mine", target)
        np.testing.assert_array_equal(table.y, y)
        np.testing.assert_array_equal(table.X, X)
        assert table.feature_names == ("a", "b")
        assert (table.task, table.name) == ("regression", "mine")
    np.testing.assert_array_equal(load(path, "y2").y, y2)
    assert load("mine").target_name == "load"
    with pytest.raises(DataError, match="X and y3 are needed"):
        load(path, "y3")

    labels = np.array([1, 0, 2, 1])
    np.savez(path, X=X, y=labels, class_names=["u", "v", "w"])
    table = load(path)
    assert table.feature_names == ("x0", "x1")
    np.testing.assert_array_equal(table.classes[table.y], ["v", "u", "w", "v"])
    np.savez(path, X=X, y=labels + 5)
    np.testing.assert_array_equal(load(path).classes, [5, 6, 7])
    np.testing.assert_array_equal(load(path, task="regression").y, labels + 5.0)

    X[2, 1] = np.nan
    np.savez(path, X=X, y=y)
    with pytest.raises(DataError, match="column x1, row 3: a value is missing"):
        load(path)
    np.savez(path, X=X, y=y[:3])
    with pytest.raises(DataError, match=r"y of \(3,\)"):
        load(path)
    path.write_bytes(b"not a zip")
    with pytest.raises(DataError, match="cannot be read as npz"):
        load(path)


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pandas as pd

    frame = pd.DataFrame({"a": [1, 2, 3], "c": pd.Categorical(["u", "v", "u"]), "y": [0.5, 1.5, 2.5]})
    frame["whole"] = pd.array([1, None, 3], dtype="Int64")
    frame.index = [7, 7, 7]
    frame.to_parquet(tmp_path / "t.parquet")
    table = load(tmp_path / "t.parquet", "y", missing="mean")
    assert table.feature_names == ("a", "c=u", "c=v", "whole")
    np.testing.assert_array_equal(table.X, [[1, 1, 0, 1], [2, 0, 1, 2], [3, 1, 0, 3]])
    frame.assign(a=["1", "2", "x"]).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="column a, row 3: 'x' is no number"):
        load(tmp_path / "t.parquet", "y", missing="mean")
    (tmp_path / "t.parquet").write_bytes(b"no parquet")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        load(tmp_path / "t.parquet")


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    (tmp_path / "t.parquet").write_bytes(b"")
    for name in [name for name in sys.modules if name.split(".")[0] == "pyarrow"] + ["pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(DataError, match=r"needs pyarrow: run `pip install langevin\[parquet\]`"):
        load(tmp_path / "t.parquet")


@needs_data
@pytest.mark.parametrize(
    ("name", "shape", "classes"),
    [
        ("airfoil", (1503, 5), None),
        ("concrete", (1030, 8), None),
        ("energy", (768, 8), None),
        ("yacht", (308, 6), None),
        ("wine_quality_red", (1599, 11), None),
        ("glass", (214, 9), 6),
        ("ionosphere", (351, 34), 2),
    ],
)
def test_tables_of_the_manifest(name, shape, classes):
    table = load(name)
    assert table.X.shape == shape
    assert (None if table.classes is None else len(table.classes)) == classes
    with np.load(Path(str(DATA)) / name / f"{name}.npz") as file:
        np.testing.assert_array_equal(table.y, file["y"])


def test_split_is_a_partition_and_repeats():
    parts = split(101, 3)
    assert [len(part) for part in parts] == [81, 10, 10]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(101))
    for again, part in zip(split(101, 3), parts, strict=True):
        np.testing.assert_array_equal(again, part)
    assert not np.array_equal(split(101, 4)[0], parts[0])
    with pytest.raises(DataError, match="add to 1"):
        split(10, 0, (0.5, 0.4))
    with pytest.raises(DataError, match="a part is empty"):
        split(3, 0)


def test_published_split():
    # as the authors' script has it: one global generator, splits drawn in turn
    np.random.seed(1)  # noqa: NPY002
    for i in range(3):
        order = np.random.choice(range(506), 506, replace=False)  # noqa: NPY002
        train, test = published_split(506, i)
        np.testing.assert_array_equal(train, order[:455])
        np.testing.assert_array_equal(test, order[455:])
    assert len(published_split(15, 0)[0]) == 14  # 13.5 is rounded up


def test_gap_split():
    X = np.stack([np.zeros(9), [5, 3, 8, 1, 0, 2, 7, 6, 4]], axis=1)
    train, test = gap_split(X, 1)
    np.testing.assert_array_equal(X[test, 1], [3, 4, 5])
    np.testing.assert_array_equal(X[train, 1], [0, 1, 2, 6, 7, 8])


def test_standard():
    X = np.random.default_rng(0).normal(3, 2, size=(50, 3))
    X[:, 1] = 0.1  # constant, and no sum of halves
    scale = Standard.fit(X)
    Z = scale.apply(X)
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-14)
    np.testing.assert_allclose(Z.std(axis=0), [1, 0, 1], rtol=1e-13)
    assert (Z[:, 1] == 0).all()
    np.testing.assert_allclose(scale.undo(Z), X, rtol=1e-14)
    np.testing.assert_array_equal(scale.undo_scale(np.ones(3)), [X[:, 0].std(), 1, X[:, 2].std()])
    np.testing.assert_allclose(scale.undo(Z + 1) - scale.undo(Z), np.tile(scale.scale, (50, 1)), rtol=1e-12)
    y = Standard.fit(X[:, 0])
    np.testing.assert_allclose(y.apply(X[:, 0]), Z[:, 0], atol=1e-14)


@pytest.mark.parametrize("task", ["clasification", "Regression", ""])
def test_an_unknown_task_is_refused(task):
    """It was taken for classification, into as many classes as there are values."""
    with pytest.raises(ValueError, match="it must be regression or classification"):
        read("diabetes", task=task)
