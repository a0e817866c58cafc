"""Tables as people have them: columns of every kind, gaps, equal rows, and what is refused."""

import json

import numpy as np
import pandas as pd
import pytest
from fits import Regressor, rows

from langevin.core.serialize import decode, encode
from langevin.estimators.columns import Columns, merged, raw_columns


def test_columns_of_every_kind(fitted_regressor):
    model, X, y = fitted_regressor
    names = model.columns_.names
    assert names[:5] == ["x", "kind=a", "kind=b", "kind=c", "kind=missing"]
    assert "gaps is missing" in names
    assert not any("same" in name for name in names)
    assert any("same" in note for note in model.columns_.notes())
    assert model.score(X, y) > 0.8
    x = model.columns_.encoded(raw_columns(X))
    assert np.isfinite(x).all()
    assert x.shape[1] == len(names)
    np.testing.assert_array_equal(x[:, names.index("gaps is missing")], X["gaps"].isna())
    assert np.abs(x[:, 0]).max() < 10  # 1e-7 is no small number here


def test_unseen_and_missing_values_are_answered(fitted_regressor):
    model, X, _ = fitted_regressor
    odd = X.iloc[:3].copy()
    odd["kind"] = ["new", None, "a"]
    odd["x"] = np.nan
    assert np.isfinite(model.predict(odd)).all()


def test_columns_come_back_from_json(fitted_regressor):
    columns = fitted_regressor[0].columns_
    encoded = encode(columns)
    assert decode(json.loads(json.dumps(encoded.body)), encoded.arrays) == columns


def test_rare_texts_share_a_column():
    text = np.array([f"v{i}" for i in range(70)] + ["v0"] * 30)
    raw = [("t", text)]
    columns = Columns.fit(raw, np.ones(100))
    x = columns.encoded(raw)
    assert x.shape[1] == 51
    np.testing.assert_array_equal(x.sum(1), 1)
    assert columns.names[-1] == "t is rare"


def test_equal_rows_are_merged_with_their_weights():
    X = np.array([[1.0, np.nan], [0.0, 2.0], [1.0, np.nan], [-0.0, 2.0], [5.0, 5.0]])
    raw, y, weight = merged(raw_columns(X), np.array([3.0, 1.0, 3.0, 1.0, 9.0]), np.array([1.0, 1.0, 2.0, 1.0, 0.0]))
    np.testing.assert_array_equal(raw[0][1], [0.0, 1.0])
    np.testing.assert_array_equal(y, [1.0, 3.0])
    np.testing.assert_array_equal(weight, [2.0, 3.0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X: X.assign(x=np.inf), "column x, row 1: the value is infinite"),
        (lambda X: X.assign(x=1j), "column x: its numbers are complex"),
        (lambda X: X.set_axis(["x", "x", *X.columns[2:]], axis=1), "more than one column named 'x'"),
    ],
)
def test_bad_tables_get_one_sentence(change, words):
    X, y = rows(30)
    with pytest.raises(ValueError, match=words):
        Regressor().fit(change(X), y)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (dict(plan="mild"), "there is no plan 'mild'; there are auto, mile, smile"),
        (dict(activation="wave"), "activation is 'wave'"),
        (dict(holdout=1.0), "holdout is 1.0"),
    ],
)
def test_bad_settings_get_one_sentence(settings, words):
    X, y = rows(30)
    with pytest.raises(ValueError, match=words):
        Regressor().set_params(**settings).fit(X, y)


# --- types are learnt in training and applied in prediction ---------------------------------------------------------

FRAME = pd.DataFrame(
    dict(
        number=[1.5, 2.5, 3.0, 4.0, 5.0, 6.0],
        flag=[True, None, False, True, None, False],
        code=["1", "2", "A", "1", "2", "A"],
        text=["1", "2", "1", "2", "1", "3"],
        day=["2020-01-31", "2021-02-28", None, "2020-03-01", "2022-12-31", "2020-01-01"],
        same=[7, 7, 7, 7, 7, 7],
    )
)


def learnt(frame=FRAME):
    return Columns.fit(raw_columns(frame), np.ones(len(frame)))


def test_types_are_learnt():
    columns = learnt()
    assert columns.kinds == dict(number="number", flag="boolean", code="text", text="text", day="date", same="text")
    assert decode(json.loads(json.dumps(encode(columns).body)), encode(columns).arrays) == columns
    assert "day year" in columns.names
    assert "day is missing" in columns.names


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f.astype(str).where(f.notna(), None),
        lambda f: f.assign(number=f["number"].astype(str), flag=["true", "", "FALSE", "1", None, "0"]),
        lambda f: f.assign(code=f["code"].astype("category"), text=[1, 2, 1, 2, 1, 3]),
        lambda f: f.assign(text=[1.0, 2.0, 1.0, 2.0, 1.0, 3.0], day=pd.to_datetime(f["day"])),
        lambda f: f.assign(same=None, day=pd.to_datetime(f["day"], utc=True)),
        lambda f: f.assign(flag=[1.0, np.nan, 0.0, 1.0, np.nan, 0.0]),
        lambda f: f.set_axis([5, 5, 5, 7, 7, 7], axis=0),
    ],
)
def test_other_types_of_the_same_values_are_the_same(change):
    columns = learnt()
    want = columns.encoded(raw_columns(FRAME))
    np.testing.assert_array_equal(columns.encoded(columns.read(change(FRAME))), want)


def test_some_values_alone_are_read_as_in_training():
    """A block of rows in which a column looks like another type: all codes numbers, flags or numbers all missing."""
    columns = learnt()
    whole = columns.encoded(raw_columns(FRAME))
    few = pd.DataFrame(dict(number=[3], flag=[False], code=[2], text=[1], day=[None], same=["x"]))
    row = columns.encoded(columns.read(few))[0]
    at = columns.names.index
    assert row[at("code=2")] == row[at("text=1")] == row[at("day is missing")] == 1
    np.testing.assert_array_equal(row[at("number")], whole[2, at("number")])
    empty = few.assign(number=None, flag=None, code=None, text="new")
    row = columns.encoded(columns.read(empty))[0]
    assert np.isfinite(row).all()
    assert not any(row[at(f"text={v}")] for v in "123")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (dict(number=["1", "2", "x", "", "5", "6"]), "column number, row 3: 'x' is no number, as in training"),
        (dict(flag=["true", "maybe", None, None, None, None]), "column flag, row 2: 'maybe' is no true or false"),
        (dict(day=["2020-01-31", "31.1.2020", None, None, None, None]), "column day, row 2: '31.1.2020' is no date"),
        (dict(number=[1, 2, 3, 4, np.inf, 6]), "column number, row 5: the value is infinite"),
        (dict(number=pd.to_datetime(FRAME["day"])), "column number: it holds dates"),
    ],
)
def test_what_cannot_be_converted_is_refused_by_row(change, words):
    with pytest.raises(ValueError, match=words):
        learnt().read(FRAME.assign(**change))


def test_a_number_far_away_does_not_fail_the_other_rows(fitted_regressor):
    model, X, _ = fitted_regressor
    odd = X.iloc[:4].reset_index(drop=True)
    odd.loc[2, "gaps"] = 1e300
    with pytest.warns(UserWarning, match=r"column gaps, row 3: 1e\+300 is more than 1,000,000 standard deviations"):
        said = model.predict(odd)
    assert np.isfinite(said).all()
    np.testing.assert_array_equal(np.delete(said, 2), model.predict(X.iloc[[0, 1, 3]]))


def test_dates_become_features():
    moments = pd.Series(pd.to_datetime(["2020-01-31 06:00", "2021-03-01 18:00", None, "1969-07-20 20:17"]))
    columns = learnt(pd.DataFrame(dict(t=moments, x=[1.0, 2.0, 3.0, 4.0])))
    assert columns.names[:6] == ["t year", "t month", "t weekday", "t days", "t hour", "t is missing"]
    x = columns.encoded(columns.read(pd.DataFrame(dict(t=moments, x=1.0))))
    for part, values in [("year", [2020, 2021, 1969]), ("month", [1, 3, 7]), ("weekday", [4, 0, 6])]:
        number = next(p for p in columns.every[0].parts if p.name == f"t {part}")
        found = x[[0, 1, 3], columns.names.index(f"t {part}")] * number.scale + number.center
        np.testing.assert_allclose(found, values, rtol=1e-5, atol=1e-5)
    days = next(p for p in columns.every[0].parts if p.name == "t days")
    np.testing.assert_allclose(x[3, 3] * days.scale + days.center, 0, atol=1e-2)
    np.testing.assert_array_equal(x[:, 5], [0, 0, 1, 0])


def test_large_whole_numbers_do_not_become_equal():
    with pytest.raises(ValueError, match="column u, row 1: 18446744073709551615 has more digits"):
        learnt(pd.DataFrame(dict(u=np.array([2**64 - 1, 2**64 - 2, 2**64 - 3], np.uint64))))
