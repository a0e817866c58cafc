"""From a file to a model, predictions, a report and a comparison; and every way to get it wrong."""

import json
import shutil
import subprocess
import sys
import urllib.error
import urllib.request

import numpy as np
import pages
import pandas as pd
import pytest
from commands import SHORT, call, runner, table

from langevin.cli import app, main
from langevin.core import document
from langevin.report.live import Live


@pytest.fixture(scope="module")
def fitted(short_plans, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fit")
    data = table(folder / "t.csv")
    out = call("fit", data, "--target", "y", *SHORT, "--out", folder / "a", "--report", folder / "r.html",
               "--json", folder / "f.json")  # fmt: skip
    return folder, data, out.output


def test_fit_says_what_it_did(fitted):
    folder, _, said = fitted
    assert "The column y holds numbers: this is regression." in said
    assert "on rows not seen" in said
    body = json.loads((folder / "f.json").read_text())
    assert body["name"] == "fit"
    assert {"rmse", "nll", "crps", "coverage90", "rhat", "ess"} <= set(body["figures"])
    assert body["figures"]["rmse"] < 1
    assert {"coverage50", "sharpness", "skill_trivial", "skill_linear", "skill_boosting"} <= set(body["figures"])
    assert [row["model"] for row in body["table"]] == ["trivial", "linear", "boosting"]
    assert body["drivers"][0]["column"] == "x"
    assert body["drivers"][0]["increase"] > 2 * body["drivers"][0]["stderr"] > 0
    codes = {f["code"]: f for f in body["verdict"]["findings"]}
    assert codes["few_rows"]["level"] == "care"
    assert (codes["few_rows"]["value"], codes["few_rows"]["limit"]) == (16, 30)
    assert body["verdict"]["headline"] in said
    page = (folder / "r.html").read_text()
    assert 'id="verdict"' in page
    assert 'id="audit"' in page
    assert "sgld: samples p as h → 0" in page  # its recorded audit


def test_predict_writes_what_is_asked_for(fitted):
    folder, data, _ = fitted
    call("predict", folder / "a", data, "--out", folder / "p.csv", "--quantiles", "0.1,0.5,0.9")
    frame = pd.read_csv(folder / "p.csv")
    assert list(frame.columns) == ["mean", "std", "q0.1", "q0.5", "q0.9", "aleatoric", "epistemic", "outlier"]
    assert len(frame) == 80
    y = pd.read_csv(data)["y"]
    assert np.corrcoef(frame["mean"], y)[0, 1] > 0.9
    call("predict", folder / "a", data, "--out", folder / "p.parquet", "--quiet")
    pd.testing.assert_series_equal(pd.read_parquet(folder / "p.parquet")["mean"], frame["mean"])
    assert call("predict", folder / "a", data).stdout.startswith("mean,std,")


def test_report_is_written_again(fitted):
    folder, _, _ = fitted
    call("report", folder / "a", "--out", folder / "again.html")
    first, again = (folder / "r.html").read_text(), (folder / "again.html").read_text()
    assert abs(len(first) - len(again)) < 0.01 * len(first)
    assert again.count("<section") == first.count("<section")


def test_compare_names_the_better_model(fitted):
    folder, data, _ = fitted
    call("fit", data, *SHORT, "--step-size", "2e-6", "--out", folder / "b", "--quiet")
    out = call("compare", folder / "a", folder / "b", "--json", folder / "c.json")
    body = json.loads((folder / "c.json").read_text())
    assert [row["score"] for row in body["table"]] == ["log score", "−CRPS", "PSIS-LOO", "WAIC"]
    assert all(row["better"] in ("first", "second", "neither") for row in body["table"])
    assert "log score" in out.output
    same = call("compare", folder / "a", folder / "a", "--json", folder / "d.json")
    assert "neither" in same.output
    assert all(row["difference"] == 0 for row in json.loads((folder / "d.json").read_text())["table"])


def test_compare_says_why_a_score_is_missing(fitted, tmp_path):
    folder, _, _ = fitted
    assert "is not shown" not in call("compare", folder / "a", folder / "a").output
    shutil.copytree(folder / "a", tmp_path / "bare")
    found = document.load(tmp_path / "bare", "scores")
    document.save(tmp_path / "bare", "scores", {k: v for k, v in found.items() if k not in ("loo", "k")})
    out = call("compare", folder / "a", tmp_path / "bare", "--json", tmp_path / "c.json")
    assert "PSIS-LOO is not shown: ArviZ was not installed when the second model was fitted" in out.output
    assert len(json.loads((tmp_path / "c.json").read_text())["notes"]) == 1
    document.save(tmp_path / "bare", "scores", found | dict(train="other"))
    out = call("compare", folder / "a", tmp_path / "bare")
    assert "PSIS-LOO is not shown: the models have different training rows" in out.output


def test_brackets_in_a_path_are_no_markup(fitted, monkeypatch):
    folder, data, _ = fitted
    monkeypatch.setenv("COLUMNS", "300")
    odd = folder / "[" / "red]"  # what Rich takes for the end of a colour
    shutil.copytree(folder / "a", odd)
    assert f"report: {odd / 'report.html'}" in call("report", odd).output
    assert "[/red]" in call("compare", odd, folder / "a").output
    assert "[/red]" in call("fit", data, "--out", odd, code=2).output


def test_classes_are_guessed_and_predicted(fitted):
    folder, _, _ = fitted
    frame = pd.read_csv(folder / "t.csv").drop(columns="kind")
    frame["y"] = np.where(frame["y"] > 0, "up", "down")
    frame.to_csv(folder / "c.csv", index=False)
    out = call("fit", folder / "c.csv", *SHORT, "--out", folder / "c", "--json", folder / "c.json")
    assert "2 labels: this is classification" in out.output
    assert "recall" in out.output
    body = json.loads((folder / "c.json").read_text())
    assert [row["name"] for row in body["classes"]] == body["confusion"]["classes"] == ["down", "up"]
    assert [row["rows"] for row in body["classes"]] == [sum(row) for row in body["confusion"]["counts"]]
    assert {"auc", "pr_auc", "balanced_accuracy", "ece"} <= set(body["figures"])
    call("predict", folder / "c", folder / "c.csv", "--out", folder / "pc.csv")
    said = pd.read_csv(folder / "pc.csv")
    assert list(said.columns) == ["class", "p(down)", "p(up)", "aleatoric", "epistemic", "outlier"]
    assert (said["class"] == frame["y"]).mean() > 0.8


@pytest.mark.parametrize(
    ("text", "words", "sentence"),
    [
        ("x,y\n1,2\n2,3\n3,4\n", ["--target", "z"], "has no column 'z': its columns are x, y"),
        ("x,y\n1,2\n2,3\n", [], "has 2 rows of data"),
        ("x,x,y\n1,2,3\n2,3,4\n3,4,5\n", [], "more than one column named 'x'"),
        ("x,y\n1,2\ninf,3\n3,4\n", [], "column x, row 2: the value is infinite"),
        ("e,y\n,2\n,3\n,4\n", [], "no column left to learn from (e left out)"),
        ("x,y\n1,a\n2,b\n3,a\n", ["--task", "regression"], "column y, row 1: 'a' is no number"),
        ("x,y\n1,2\n2,3\n3,4\n", ["--hidden", "4,x"], "--hidden is '4,x'"),
        ("x,y\n1,2\n2,3\n3,4\n", ["--kernel", "sgld", "--speed", "3"], "SGLD has no option --speed; it has step_size"),
        ("x,y\n1,2\n2,3\n3,4\n", ["--kernel", "cyclical"], "Cyclical needs a value for kernel"),
        ("x,y\n1,2\n2,3\n3,4\n", ["--plan", "mild"], "there is no plan 'mild'"),
        ("x,y\n1,2\n2,3\n3,4\n", ["--report", "r.txt"], "must end in .html"),
        ("x,y\n1,2\n2,3\n3,4\n", ["--draws", "0"], "--draws is 0; it must be 1 or more"),
        ("x,y\n1,2\n2,3\n3,4\n", ["--resume"], "--resume needs --out"),
        ("x,y\n1,2\n2,3\n3,4\n", ["--drop", "z"], "no column 'z', which --drop names"),
        ("x,y\n1,2\n2,3\n3,4\n", ["--weights", "x"], "no column left to learn from"),
        ("x,w,y\n1,-1,2\n2,1,3\n3,1,4\n", ["--weights", "w"], "column w, row 1: the weight is -1"),
        ("x,y\n1,2\n2,3\n3,4\n", ["--likelihood", "cauchy"], "it must be auto, gaussian, lognormal, poisson"),
        ("x,y\n1,-2\n2,3\n3,4\n", ["--likelihood", "lognormal"], "the likelihood lognormal needs numbers above 0"),
        ("x,y\n1,a\n2,b\n3,a\n", ["--likelihood", "poisson"], "it is for regression only"),
        ("x,y,z\n1,2,a\n2,3,b\n3,4,a\n", ["--target", "y,z"], "as regression needs"),
        (
            "x,y,z\n1,2,3\n2,3,4\n3,4,5\n",
            ["--target", "y,z", "--task", "classification"],
            "several targets must be numbers; predict the labels one by one",
        ),
        ("a,b,y\ninf,x,1\n2,3,4\n3,4,5\n", [], "2 columns that cannot be used: a (row 1"),
    ],
)
def test_mistakes_get_one_sentence(text, words, sentence, tmp_path, capsys, monkeypatch):
    (tmp_path / "d.csv").write_text(text)
    monkeypatch.setattr(sys, "argv", ["langevin", "fit", str(tmp_path / "d.csv"), *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    said = capsys.readouterr().err.replace("\n", " ")
    assert sentence in said
    assert "Traceback" not in said


def test_mistakes_about_models_get_one_sentence(fitted, tmp_path):
    folder, data, _ = fitted
    (tmp_path / "n.csv").write_text("x\n1\n")
    for words, sentence in [
        (["predict", tmp_path, data], "holds no saved estimator"),
        (["predict", folder / "a", tmp_path / "n.csv"], "has no column 'kind', which the model was trained with"),
        (["report", tmp_path], "holds no data of a report"),
        (["compare", folder / "a", tmp_path], "holds no scores"),
        (["fit", data, "--out", folder / "a"], "is not empty"),
    ]:
        out = runner.invoke(app, [str(w) for w in words])
        said = " ".join((out.output + str(out.exception)).split())  # a long path breaks lines anywhere
        assert sentence in said


def test_a_broken_file_ends_with_exit_code_2(tmp_path):
    (tmp_path / "bad.parquet").write_bytes(b"no parquet")
    done = subprocess.run(
        [sys.executable, "-m", "langevin.cli", "fit", str(tmp_path / "bad.parquet")], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "cannot be read as Parquet" in done.stderr.replace("\n", " ")


def test_cite_names_papers():
    assert "Welling" in call("cite", "sgld").output
    assert "langevin" in call("cite").output


def test_live_serves_the_report_on_loopback():
    live = Live("t<script>")
    assert live.address.startswith("http://127.0.0.1:")
    page = urllib.request.urlopen(live.address, timeout=5).read().decode()
    assert "t&lt;script&gt;" in page
    stream = urllib.request.urlopen(live.address + "stream", timeout=5)
    said = lambda: json.loads((stream.readline() + stream.readline()).decode().removeprefix("data: "))
    assert "training and tuning" in said()["body"]
    live.show(pages.regression())
    now = said()
    assert 'id="verdict"' in now["body"]
    assert not now["ended"]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(live.address + "etc/passwd", timeout=5)
    live.end()
    assert said()["ended"]
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(live.address, timeout=2)
