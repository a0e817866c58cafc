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
        (lambda X: X.assign(x=np.inf), "column x, row 1: the value is infinity"),
        (lambda X: X.assign(x=pd.Timestamp("2020-01-01")), "column x: dates"),
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
