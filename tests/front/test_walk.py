"""The three tables of a first hour, fitted by the default plan."""

import json

import pandas as pd
import pytest
import walk
from commands import call

pytestmark = pytest.mark.slow


def fitted(name, tmp_path):
    getattr(walk, name)().to_csv(tmp_path / f"{name}.csv", index=False)
    out = call("fit", tmp_path / f"{name}.csv", "--out", tmp_path / "m", "--json", tmp_path / "f.json")
    return json.loads((tmp_path / "f.json").read_text()), out.output


def test_houses(tmp_path):
    """A network knows more than boosting, with the log-normal likelihood; dates and identifiers are told."""
    body, said = fitted("houses", tmp_path)
    assert "the likelihood is log-normal" in said
    assert "Left out, for they only tell rows apart: id" in said
    assert body["verdict"]["level"] != "stop"
    assert body["figures"]["skill_linear"] > 0.3
    assert body["figures"]["skill_boosting"] > -0.05
    call("predict", tmp_path / "m", tmp_path / "houses.csv", "--out", tmp_path / "p.csv")
    frame = pd.read_csv(tmp_path / "p.csv")
    assert list(frame)[:2] == ["id", "mean"]
    assert (frame["q0.05"] > 0).all()


def test_counts(tmp_path):
    """No quantile is negative, and the log score is no worse than that of simpler models of counts."""
    body, said = fitted("counts", tmp_path)
    assert "the likelihood is the negative binomial" in said
    assert all(row["nll_difference"] < 2 * row["stderr"] for row in body["table"])
    assert 0.8 < body["figures"]["coverage90"] < 0.98
    call("predict", tmp_path / "m", tmp_path / "counts.csv", "--out", tmp_path / "p.csv")
    frame = pd.read_csv(tmp_path / "p.csv")
    assert (frame["q0.05"] >= 0).all()
    assert (frame["q0.95"] == frame["q0.95"].round()).all()


def test_fraud(tmp_path):
    """Answers that are those of the commonest class are not called good."""
    body, _ = fitted("fraud", tmp_path)
    assert body["figures"]["auc"] > 0.7
    codes = {f["code"] for f in body["verdict"]["findings"]}
    assert body["verdict"]["level"] != "good" or body["figures"]["balanced_accuracy"] > 0.6, codes
