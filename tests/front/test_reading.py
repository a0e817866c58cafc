"""Tables as people have them: dates, identifiers, decimal commas, codes, weights; and all that is wrong at once."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
import walk

from langevin.data.files import DataError
from langevin.data.tables import read


@pytest.fixture
def csv(tmp_path):
    def write(text):
        (tmp_path / "t.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
        return tmp_path / "t.csv"

    return write


def kinds(X):
    return "".join("t" if c.dtype.kind == "O" else c.dtype.kind for _, c in X.items())


# --- the three tables -----------------------------------------------------------------------------------------------


def test_houses_are_read_right(tmp_path):
    frame = walk.houses()
    frame.to_csv(tmp_path / "houses.csv", index=False)
    table = read(tmp_path / "houses.csv")
    assert list(table.X) == ["sold", "district", "area", "rooms", "distance", "built", "garden"]
    assert kinds(table.X) == "Mtfffib"
    assert table.X["garden"].isna().sum() == frame["garden"].isna().sum() > 0
    np.testing.assert_array_equal(table.X["sold"], pd.to_datetime(frame["sold"]))
    assert (table.task, table.identifiers) == ("regression", ("id",))
    assert any("id (use one by --keep id)" in note for note in table.notes)
    assert any("Dates become year, month, weekday" in note for note in table.notes)


def test_fraud_and_counts_are_read_right(tmp_path):
    walk.fraud().to_csv(tmp_path / "fraud.csv", index=False)
    table = read(tmp_path / "fraud.csv")
    assert (table.task, table.identifiers) == ("classification", ("payment_id",))
    assert kinds(table.X) == "fift"
    assert 0.05 < np.mean(table.y == "yes") < 0.07
    walk.counts().to_csv(tmp_path / "counts.csv")  # with pandas' unnamed index
    table = read(tmp_path / "counts.csv")
    assert (table.task, table.identifiers) == ("regression", ("index",))
    assert kinds(table.X) == "fbft"
    np.testing.assert_array_equal(table.y, walk.counts()["rentals"])


# --- forms of files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "a;b;y\n1,5;2,25;3\n2,5;0,125;4\n4;5,5;5,5\n",
        '"a","b","y"\n"1,5","2,25","3"\n"2,5","0,125","4"\n4,"5,5","5,5"\n',
        "a\tb\ty\r\n1.5\t2.25\t3\r\n\r\n2.5\t.125\t4\r\n4\t5.5\t5.5\r\n",
        "a|b|y\n1.5|2.25|3\n2.5|1.25e-1|4\n4|5.5|5.5\n",
        "a , b,y\n1.5 ,2.25, 3\n2.5,0.125 ,4\n4,5.5,5.5\n".encode("utf-16"),
    ],
)
def test_decimal_marks_separators_and_encodings(csv, text):
    table = read(csv(text))
    np.testing.assert_array_equal(table.X.to_numpy(float), [[1.5, 2.25], [2.5, 0.125], [4, 5.5]])
    np.testing.assert_array_equal(table.y, [3, 4, 5.5])


def test_thousands_are_read_where_there_is_one_reading(csv):
    table = read(csv('a,y\n"1,234",1\n"12,345,678",2\n"1,234.5",3\n5,4\n'))
    np.testing.assert_array_equal(table.X["a"], [1234, 12345678, 1234.5, 5])
    rows = "".join(f'"{i},23{i % 10}",{i}.5\n' for i in range(1, 60))
    with pytest.raises(DataError, match="row 1: '1,231' may be read with and without a decimal mark"):
        read(csv("a,y\n" + rows))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,y\n1,2\n1\n3,4\n5,6\n", "row 2 has 1 values, and the first line has 2 names"),
        ("a,b,y\n1,x3,2\n2,4,3\n3,5,4\n4,6,inf\n", "column b, row 1: 'x3' is no number"),
        ("a,b,y\n1,1e300,2\n2,4,3\n3,5,4\n", "column b, row 1: 1e\\+300 is beyond the numbers"),
        ("a,b,y\n1,1+2j,2\n2,4+1j,3\n3,5+0j,4\n", "column b, row 1: '1\\+2j' is a complex number"),
        ("a,b,y\n1,31.12.2020,2\n2,30.12.2020,3\n3,,4\n", "'31.12.2020' is a date, but not in ISO form"),
        ("a,b,y\n1,2020-01-01,2\n2,2020-01-02,3\n3,soon,4\n", "column b, row 3: 'soon' is no date"),
        ("a,y\n1,2020-01-01\n2,2020-01-02\n3,2020-01-03\n", "column y, row 1: dates cannot be predicted"),
        ("id,y\n1,2\n2,3\n3,4\n", "no column left to learn from \\(id left out\\)"),
        (",a,y\n1,2,3\n1,3,4\n2,4,5\n", "the first column has no name and holds no row numbers"),
        ("a,,y\n1,2,3\n1,3,4\n2,4,5\n", "column 2 has no name"),
        ("1.5,red,3\n1,red,4\n2,blue,6\n1,red,9\n", "begins with numbers"),
        ("a,y\n" + "".join(f"{i} kg,{i}\n" for i in range(40)), "'0 kg' is a number with something beside it"),
        ("a,y\n" + "".join(f"{i},l{i}\n" for i in range(40)), "40 different labels in 40 rows are no classes"),
        ("a,y\n" + "".join(f"{2**63 + i % 20},{i}\n" for i in range(40)), "more digits than a number can hold"),
    ],
)
def test_what_cannot_be_used_is_said(csv, text, words):
    with pytest.raises(DataError, match=words) as caught:
        read(csv(text))
    assert "t.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_bad_columns_are_named_at_once(csv):
    path = csv("a,b,c,d,y\n1,1,inf,u,1\n2,2,2,v,2\n3,x,3,u,3\n,4,4,v,4\n")
    with pytest.raises(DataError, match=r"2 columns that cannot be used: b \(row 3.*c \(row 1.*--drop b,c") as caught:
        read(path)
    assert str(caught.value).count("t.csv") == 1
    assert list(read(path, drop=["b", "c"]).X) == ["a", "d"]


def test_complex_arrays_are_refused(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.ones((4, 2)) * 1j, y=np.arange(4.0))
    with pytest.raises(DataError, match="X holds complex numbers"):
        read(tmp_path / "t.npz")


# --- what is asked for ----------------------------------------------------------------------------------------------


def test_columns_are_dropped_kept_and_made_categories(csv):
    path = csv("id,zip,code,w,y\n" + "".join(f"{i},0{i % 3}1,{i % 4},{i % 2 + 1},{i}.5\n" for i in range(24)))
    table = read(path, keep=["id"], categorical=["code"], weights="w")
    assert list(table.X) == ["id", "zip", "code"]
    assert set(table.X["zip"]) == {"001", "011", "021"}
    assert list(table.X["code"].cat.categories) == ["0", "1", "2", "3"]
    np.testing.assert_array_equal(table.weights, np.arange(24) % 2 + 1)
    assert read(path, drop=["zip"]).identifiers == ("id",)
    assert list(read(path, "y", drop=["zip", "w"]).X) == ["code"]
    assert read(path, drop=["y"]).target_name == "w"
    for given, words in [
        (dict(drop=["z"]), "no column 'z', which --drop names"),
        (dict(keep=["y"]), "--keep names 'y', which is the target"),
        (dict(drop=["w"], weights="w"), "'w' is to be dropped and to be used"),
    ]:
        with pytest.raises(DataError, match=words):
            read(path, "y", **given)


@pytest.mark.parametrize(
    ("values", "words"),
    [("1,,2", "row 2: the weight is missing"), ("1,-2,2", "row 2: the weight is -2"), ("0,0,0", "every weight is 0")],
)
def test_weights_are_checked(csv, values, words):
    rows = "".join(f"{i},{w},{i}.5\n" for i, w in enumerate(values.split(",")))
    with pytest.raises(DataError, match=f"column w.*{words}" if "every" not in words else words):
        read(csv("a,w,y\n" + rows), "y", weights="w")


def test_several_targets_are_read(csv):
    path = csv("a,y,z\n1,2,3\n2,3,4.5\n3,4,5\n")
    for asked in ("y,z", ["y", "z"]):
        table = read(path, asked)
        np.testing.assert_array_equal(table.y, [[2, 3], [3, 4.5], [4, 5]])
        assert (list(table.X), table.targets, table.target_name) == (["a"], ("y", "z"), "y, z")


def test_codes_and_empty_columns(csv):
    rows = "".join(f"{i},{'12A'[i % 3]},,{'' if i % 5 else 'TRUE'},{i}.5\n" for i in range(30))
    table = read(csv("x,code,none,flag,y\n" + rows))
    assert set(table.X["code"]) == {"1", "2", "A"}
    assert list(table.X) == ["x", "code", "flag"]
    assert table.X["flag"].sum() == 6
    assert any("every value is missing: none" in note for note in table.notes)


def test_many_levels_take_little_memory(csv):
    text = "t,y\n" + "".join(f"level {i % 5000},{i}.5\n" for i in range(20_000))
    path = csv(text)
    read(path)  # pandas is imported
    tracemalloc.start()
    read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6  # an array of rows × levels would take 800 MB
