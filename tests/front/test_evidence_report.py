"""The evidence of a saved model: kept in its folder whatever follows, told in its report, compared with another's."""

import json
import shutil
from dataclasses import replace

import commands
import numpy as np
import pages
import pandas as pd
import pytest

from langevin.cli import app
from langevin.core import document
from langevin.core.files import StoreError
from langevin.report import comparison
from langevin.report import evidence as told
from langevin.report import folder as folders
from langevin.report.page import page

pytestmark = pytest.mark.xdist_group("test_fit")  # whose programs it shares
FILE = "evidence.json"
ABOUT = dict(rows="a", n=60, task="regression", data="t", target="y", trained=True)


def line(method, log_z, stderr=0.3, *, seed=0, ess=50.0, guarantee="unbiased-Z", words="", **more):
    return dict(method=method, seed=seed, log_z=log_z, stderr=stderr, ess=ess, guarantee=guarantee, words=words) | more


def folder(path, *lines, about=ABOUT):
    path.mkdir(exist_ok=True)
    for one in lines:
        told.write(path, about, one)
    return path


def strict(text):
    def no(word):
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=no)


def test_nothing_already_found_is_lost(tmp_path):
    folder(tmp_path, line("ais", -3.0), line("laplace", -2.0, np.nan, ess=np.nan, lower=-np.inf))
    folder(tmp_path, line("ais", -5.0), about=ABOUT | dict(rows="b"))
    folder(tmp_path, line("ais", -3.5), line("ais", -3.1, seed=1))
    other, last = told.read(tmp_path)
    assert (other["rows"], last["rows"]) == ("b", "a")
    assert {(r["method"], r["seed"]): r["log_z"] for r in last["table"]} == {
        ("laplace", 0): -2.0,
        ("ais", 0): -3.5,
        ("ais", 1): -3.1,
    }
    assert [r["log_z"] for r in other["table"]] == [-5.0]
    body = strict((tmp_path / FILE).read_text())["body"]
    assert body[1]["table"][0]["stderr"] is None


def test_a_broken_file_is_told_and_left_alone(tmp_path):
    (tmp_path / FILE).write_text("[{")
    with pytest.raises(StoreError, match="cannot be read"):
        told.write(tmp_path, ABOUT, line("ais", 0.0))
    assert (tmp_path / FILE).read_text() == "[{"
    assert told.read(tmp_path / "nowhere") == ()


def test_the_factor_is_the_difference_with_both_errors(tmp_path):
    a = folder(tmp_path / "a", line("ais", -10.0, 0.3), line("smc", -10.2, 0.1))
    b = folder(tmp_path / "b", line("ais", -22.0, 0.4), line("nested", -9.0))
    row = told.factor(a, b)
    assert (row["score"], row["first"], row["second"], row["difference"]) == ("log evidence", -10.0, -22.0, 12.0)
    assert row["stderr"] == pytest.approx(0.5)
    assert row["better"] == "first"
    assert row["words"] == "log Bayes factor 12.0 ± 0.5, for the first model (ais, 60 rows)"
    (note,) = row["notes"]
    assert "ais and nested of the second model differ by 13.0 nats" in note
    assert told.factor(b, a)["better"] == "second"
    close = folder(tmp_path / "c", line("ais", -10.9, 0.4))
    assert told.factor(a, close)["better"] == "neither"
    assert "for neither model" in told.factor(a, close)["words"]


@pytest.mark.parametrize("other", [dict(rows="b"), dict(task="classification")])
def test_models_of_other_rows_have_no_factor(tmp_path, other):
    a, b = folder(tmp_path / "a", line("ais", -1.0)), folder(tmp_path / "b", line("ais", -2.0), about=ABOUT | other)
    assert told.factor(a, b) is None
    assert told.factor(a, tmp_path / "nowhere") is None


def test_the_highest_bound_from_below_is_compared(tmp_path):
    """What has no guarantee or no error is not; and few weights are told."""
    lines = [line("harmonic", 9.0, guarantee="none"), line("laplace", 9.5, None, guarantee="none")]
    lines += [
        line("smc", -30.0, guarantee="consistent"),
        line("ais", -10.0, ess=2.0),
        line("thermo", -9.0, guarantee="consistent"),
    ]
    a, b = folder(tmp_path / "a", *lines), folder(tmp_path / "b", *lines)
    row = told.factor(a, b)
    assert "(ais, 60 rows)" in row["words"]
    assert sum("weights of ais is 2 in the" in note for note in row["notes"]) == 2
    for log_z, first in ((-30.0, "ais"), (-5.0, "smc")):
        few = [line("smc", log_z, guarantee="consistent"), line("ais", -10.0)]
        a, b = folder(tmp_path / f"a{first}", *few), folder(tmp_path / f"b{first}", *few)
        assert f"({first}, 60 rows)" in told.factor(a, b)["words"]


def test_compare_has_a_row_of_evidence(tmp_path):
    for name, log_z in (("a", -14260.22), ("b", -14270.5)):
        here = folder(tmp_path / name, line("ais", log_z))
        five = np.arange(5.0)
        scores = dict(nll=five, test="t", waic=five, variance=np.zeros(5), train="a")
        document.save(here, comparison.DOCUMENT, scores)
    rows = comparison.compared(tmp_path / "a", tmp_path / "b")
    assert [r["score"] for r in rows] == ["log score", "WAIC", "log evidence"]
    out = commands.runner.invoke(
        app, ["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--json", str(tmp_path / "c.json")]
    )
    assert out.exit_code == 0, out.output
    assert "log Bayes factor 10.3 ± 0.4, for the first model (ais, 60 rows)" in " ".join(out.output.split())
    assert json.loads((tmp_path / "c.json").read_text())["figures"]["log evidence_difference"] == pytest.approx(10.28)
    (tmp_path / "b" / FILE).unlink()
    assert [r["score"] for r in comparison.compared(tmp_path / "a", tmp_path / "b")] == ["log score", "WAIC"]


def written(*lines, **about):
    entry = {**ABOUT, **about, "table": tuple(lines)}
    text = page(replace(pages.regression(rows=30, draws=40), evidence=(entry,)))
    return text.split('<section id="evidence">')[1].split("</section>")[0]


def test_the_section_tells_methods_and_what_they_are_worth():
    smc = line("smc", -190.63, 0.37, guarantee="consistent")
    laplace = line("laplace", -188.0, None, ess=None, guarantee="none", words="no error")
    text = written(line("ais", -191.75, 0.36), smc, laplace)
    for words in (
        "−191.75",
        "0.36",
        "too low on average",
        "right in the limit",
        "60 rows of t",
        "trained on",
        "no error",
    ):
        assert words in text
    assert "agree within their errors" in text
    assert text.count("<circle") == 3 + 1  # and the legend's
    apart = written(line("ais", -191.75, 0.36), line("stochastic_dais", -250.0, 0.1))
    assert "stochastic dais and ais differ by 58.2 nats" in apart


def test_a_model_not_weighed_has_no_section():
    assert "evidence" not in page(pages.classification(rows=30, draws=40)).split("<main>")[0].split("<nav")[1]
    entry = {**ABOUT, "table": (line("bridge", None, None, ess=None, words="needs draws"),)}
    assert 'id="evidence"' not in page(replace(pages.regression(rows=30, draws=40), evidence=(entry,)))


def test_foreign_words_of_evidence_are_escaped():
    text = written(line(pages.NASTY, -1.0, words=pages.NASTY), data=pages.NASTY)
    assert "<script" not in text
    assert text.count("&lt;script&gt;") >= 3


def test_a_fit_that_goes_on_keeps_its_evidence(tmp_path, monkeypatch):
    class Model:
        def save(self, folder):
            folder.mkdir()

    out = folder(tmp_path / "m", line("ais", -1.0))
    monkeypatch.setattr(comparison, "write", lambda *_: None)
    (tmp_path / "m.new").mkdir()  # left over by a process that was killed
    (tmp_path / "m.new" / "estimator.json").write_text("")
    folders.save(out, Model(), [pages.regression(rows=12, draws=20)], {}, (None, None))
    assert told.read(out)[0]["table"][0]["log_z"] == -1.0
    assert (out / "report.json").exists()


# --- from a table to a comparison -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted(short_plans, tmp_path_factory):
    home = tmp_path_factory.mktemp("weighed")
    commands.call("fit", commands.table(home / "t.csv"), *commands.SHORT, "--out", home / "a", "--quiet")
    shutil.copytree(home / "a", home / "b")
    return home


def call(*words, code=0):
    return " ".join(commands.call(*words, code=code).output.split())


def test_evidence_stays_with_the_model_and_is_shown(fitted):
    said = call("evidence", fitted / "a", "--method", "importance", "--method", "bridge")
    assert "evidence.json; `langevin report" in said
    (entry,) = told.read(fitted / "a")
    assert [r["method"] for r in entry["table"]] == ["importance"], "bridge had no draws"
    assert (entry["n"], entry["data"], entry["trained"]) == (64, "t", True)
    assert entry["rows"] == document.load(fitted / "a", comparison.DOCUMENT)["train"]
    call("evidence", fitted / "a", "--data", fitted / "t.csv", "--method", "importance", "--quiet")
    assert [(e["n"], e["trained"]) for e in told.read(fitted / "a")] == [(64, True), (80, False)]
    call("evidence", fitted / "b", "--seed", "1", "--method", "importance", "--quiet")
    said = call("compare", fitted / "a", fitted / "b")
    assert "log Bayes factor" in said
    assert "(importance, 64 rows)" in said
    call("report", fitted / "a")
    text = (fitted / "a" / "report.html").read_text()
    assert "64 rows of t, those the model was trained on" in text
    assert "80 rows of t." in text


def test_what_was_found_outlives_an_interruption(fitted, monkeypatch):
    from langevin.evidence import entry as entries

    real = entries.log_evidence

    def pressed(*args, method, **how):
        if method == "laplace":
            raise KeyboardInterrupt
        return real(*args, method=method, **how)

    monkeypatch.setattr(entries, "log_evidence", pressed)
    words = ["evidence", str(fitted / "b"), "--seed", "7", "--method", "importance", "--method", "laplace", "--quiet"]
    assert commands.runner.invoke(app, words).exit_code != 0
    assert 7 in [row["seed"] for row in told.read(fitted / "b")[-1]["table"]]


def test_a_table_that_changed_is_refused(fitted, tmp_path):
    changed = pd.read_csv(fitted / "t.csv").assign(y=lambda frame: frame["y"] + 1)
    whole = (fitted / "t.csv").read_text()
    try:
        changed.to_csv(fitted / "t.csv", index=False)
        said = call("evidence", fitted / "a", "--method", "importance", code=2)
    finally:
        (fitted / "t.csv").write_text(whole)
    assert "is no longer the table of" in said
