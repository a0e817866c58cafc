"""`langevin predict`: in blocks, with identifiers, and a file that is complete or absent."""

import sys

import numpy as np
import pandas as pd
import pytest
import walk
from commands import SHORT, call

from langevin.cli import main
from langevin.data import tables
from langevin.estimators.files import load


@pytest.fixture(scope="module")
def houses(short_plans, tmp_path_factory):
    folder = tmp_path_factory.mktemp("predict")
    walk.houses(120).to_csv(folder / "houses.csv", index=False)
    call("fit", folder / "houses.csv", *SHORT, "--out", folder / "m", "--drop", "built", "--likelihood", "gaussian")
    return folder


def predicted(folder, *words):
    call("predict", folder / "m", *words, "--out", folder / "p.csv", "--quiet")
    return pd.read_csv(folder / "p.csv")


def test_rows_keep_their_identifier(houses):
    frame = predicted(houses, houses / "houses.csv")
    assert list(frame) == ["id", "mean", "std", "q0.05", "q0.95", "aleatoric", "epistemic", "outlier"]
    np.testing.assert_array_equal(frame["id"], np.arange(1, 121))
    assert list(predicted(houses, houses / "houses.csv", "--id", "sold,area"))[:3] == ["sold", "area", "mean"]
    whole = predicted(houses, houses / "houses.csv", "--keep-input")
    given = pd.read_csv(houses / "houses.csv")
    pd.testing.assert_frame_equal(whole[list(given)], given)
    np.testing.assert_array_equal(whole["mean"], frame["mean"])
    named = given.rename(columns={"id": "mean"})
    named.to_csv(houses / "named.csv", index=False)
    both = predicted(houses, houses / "named.csv", "--id", "mean")
    assert list(both)[:2] == ["mean", "predicted mean"]
    given.drop(columns=["id", "price", "built"]).to_csv(houses / "bare.csv")
    assert list(predicted(houses, houses / "bare.csv"))[:2] == ["index", "mean"]
    call("predict", houses / "m", houses / "houses.csv", "--id", "nothing", code=2)


def test_blocks_are_the_whole(houses, monkeypatch):
    """Whatever a block looks like: flags all missing in one, categories all numbers in another."""
    frame = pd.concat([walk.houses(120).assign(id=i) for i in range(6)]).assign(id=np.arange(720))
    frame.iloc[256:512, frame.columns.get_loc("garden")] = None
    frame.iloc[:256, frame.columns.get_loc("district")] = "1"
    frame.to_csv(houses / "many.csv", index=False)
    frame.to_parquet(houses / "many.parquet")
    whole = predicted(houses, houses / "many.csv")
    rows, was = [], tables.rows

    def small(source, kinds, **options):
        found = was(source, kinds, block=256, **options)
        frames = (rows.append(len(f)) or f for f in found.frames)
        return tables.Rows(found.where, found.names, found.total, found.decimal, frames)

    monkeypatch.setattr(tables, "rows", small)
    pd.testing.assert_frame_equal(predicted(houses, houses / "many.csv"), whole, check_exact=True)
    assert rows == [256, 256, 208]
    pd.testing.assert_frame_equal(predicted(houses, houses / "many.parquet"), whole, rtol=1e-12)
    call("predict", houses / "m", houses / "many.csv", "--out", houses / "p.parquet", "--quiet")
    pd.testing.assert_frame_equal(pd.read_parquet(houses / "p.parquet").astype({"id": int}), whole, rtol=1e-12)
    model = load(houses / "m")
    direct = model.predict_frame(frame[list(model.feature_names_in_)].reset_index(drop=True))
    np.testing.assert_allclose(whole["mean"], direct["mean"], rtol=1e-12)


def test_a_row_does_not_depend_on_those_beside_it(houses):
    model = load(houses / "m")
    X = walk.houses(120)[list(model.feature_names_in_)]
    whole, few = model.predict_frame(X), model.predict_frame(X.iloc[[5, 70, 8]])
    pd.testing.assert_frame_equal(whole.iloc[[5, 70, 8]], few, rtol=1e-12)


def test_a_wrong_value_is_named_by_file_column_and_row(houses, monkeypatch, capsys):
    frame = walk.houses(600).astype(object)
    frame.loc[560, "area"] = "large"
    frame.to_csv(houses / "wrong.csv", index=False)
    was = tables.rows
    monkeypatch.setattr(tables, "rows", lambda *given, **options: was(*given, block=256, **options))
    words = ["langevin", "predict", str(houses / "m"), str(houses / "wrong.csv"), "--out", str(houses / "none.csv")]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit):
        main()
    assert "wrong.csv, column area, row 561: 'large' is no number, as in training" in capsys.readouterr().err
    assert not (houses / "none.csv").exists()
    assert not list(houses.glob(".none.csv*")), "no half of a file is left"


def test_a_far_value_is_told_and_the_rows_are_predicted(houses):
    frame = walk.houses(120)
    frame.loc[7, "distance"] = 1e300
    frame.to_csv(houses / "far.csv", index=False)
    out = call("predict", houses / "m", houses / "far.csv", "--out", houses / "p.csv")
    assert "column distance, row 8: 1e+300 is more than 1,000,000 standard deviations" in out.output.replace("\n", " ")
    found = pd.read_csv(houses / "p.csv")
    assert np.isfinite(found["mean"]).all()
    assert found["outlier"][7]


def test_decimal_commas_are_predicted_as_points(houses):
    frame = walk.houses(120)
    want = predicted(houses, houses / "houses.csv")
    frame.to_csv(houses / "comma.csv", index=False, sep=";", decimal=",")
    pd.testing.assert_frame_equal(predicted(houses, houses / "comma.csv"), want)
    pd.testing.assert_frame_equal(predicted(houses, houses / "comma.csv", "--id", "id,area")[["mean"]], want[["mean"]])


def test_quantiles_are_checked(houses):
    out = call("predict", houses / "m", houses / "houses.csv", "--quantiles", "0.5,1", code=2)
    assert "strictly between 0 and 1" in out.output
