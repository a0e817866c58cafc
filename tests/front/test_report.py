"""The report's words and numbers: every section for every kind of fit, nothing unescaped, a verdict that is right."""

import inspect
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pages
import pytest
from scipy.stats import binom

from langevin.diagnostics import calibration as cal
from langevin.diagnostics import convergence, findings
from langevin.diagnostics.findings import Finding, sentence
from langevin.report import numbers, plot, scores, verdict, words
from langevin.report.data import Predictions, ReportData
from langevin.report.gather import _error
from langevin.report.page import SHORT, page
from langevin.report.verdict import judge

CASES = {"regression": pages.regression, "classification": pages.classification, **pages.ODD}
VOID = {"meta", "link", "img", "br"}


class Reader(HTMLParser):
    """Sections, tags left open, attributes and visible text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sections: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag == "section":
            self.sections.append(dict(attrs)["id"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)


@pytest.fixture(scope="module", params=CASES)
def written(request) -> str:
    return page(CASES[request.param]())


def test_every_page_is_whole(written):
    found = Reader(written)
    assert found.open == []
    assert found.sections == list(SHORT)
    for svg in re.findall(r"<svg.*?</svg>", written, flags=re.DOTALL):
        ElementTree.fromstring(svg)
    assert len(written.encode()) < 600_000


def test_every_page_stands_alone(written):
    found = Reader(written)
    assert not {tag for tag, _, _ in found.attributes} & {"script", "img", "iframe", "object"}
    assert not [name for _, name, _ in found.attributes if name.startswith("on") or name in ("src", "srcset")]
    assert {value[0] for _, name, value in found.attributes if name == "href"} <= {"#", "d"}  # data:, for the icon
    style = written.split("<style>")[1].split("</style>")[0]
    assert "@import" not in style
    assert "url(" not in style


def test_every_number_is_well_written(written):
    for path in re.findall(r' (?:d|x|y|cx|cy|r)="([^"]*)"', written):
        assert not re.search("nan|inf|e[-+]", path)
    text = " ".join(Reader(written).text)
    assert not re.search(r"\b(nan|inf|None)\b", text, flags=re.IGNORECASE)
    assert not re.search(r"(^|[\s(])-\d", text)  # a hyphen is no minus


def test_foreign_text_is_escaped():
    text = page(pages.nasty())
    assert "<script" not in text
    assert "<img" not in text
    assert text.count("&lt;script&gt;") > 10
    regression = replace(pages.regression(rows=30, draws=50), name=pages.NASTY, target=pages.NASTY)
    assert "<script" not in page(regression)


def test_long_runs_are_thinned():
    rng = np.random.default_rng(0)
    facts = pages.regression(rows=900, draws=20)
    long = {f"number {i}": rng.normal(size=(40, 3000)) for i in range(6)}
    text = page(replace(facts, chains=long, energy_error=rng.normal(size=(40, 3000))))
    assert len(text.encode()) < 600_000
    assert "8 of 40 chains are drawn" in text


def test_figures_are_those_of_the_diagnostics():
    facts = pages.regression()
    found = scores.scores(facts, facts.predictions)
    low, high = cal.intervals(facts.predictions.mean, facts.predictions.std, [0.9])
    assert found[scores.COVERAGE] == cal.coverage(facts.y, low, high)[0]
    assert found["CRPS"] == cal.crps_mixture(facts.y, facts.predictions.mean, facts.predictions.std)
    np.testing.assert_allclose(scores.row_nll(facts, facts.predictions).mean(), found["NLL"], rtol=1e-12)
    labelled = pages.classification()
    found = scores.scores(labelled, labelled.predictions)
    np.testing.assert_allclose(scores.row_nll(labelled, labelled.predictions).mean(), found["NLL"], rtol=1e-12)
    assert numbers.percent(found["Accuracy"]) in page(labelled)


def test_chance_is_binomial():
    low, high = scores.chance(200, 0.9)
    inside = binom.cdf(200 * high + 1e-9, 200, 0.9) - binom.cdf(200 * low - 1 + 1e-9, 200, 0.9)
    assert 0.95 <= inside < 0.98
    # equal probabilities: the normal law is near
    np.testing.assert_allclose(scores.chance_of(np.full(2000, 0.3)), scores.chance(2000, 0.3), atol=1e-3)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0"),
        (-1.2345, "−1.23"),
        (0.99996, "1.00"),
        (123456.0, "123,456"),
        (1e9, "1.00×10⁹"),
        (-2.5e-7, "−2.50×10⁻⁷"),
        (float("nan"), "–"),
        (float("inf"), "∞"),
        (9.996, "10.0"),
    ],
)
def test_numbers_in_words(value, words):
    assert numbers.number(value) == words


def test_ticks_are_round():
    assert plot.ticks(0, 1) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert plot.ticks(-3.2e9, 4.1e9) == [-2e9, 0, 2e9, 4e9]
    assert plot.tick_names([-2e9, 0, 2e9]) == (["−2", "0", "2"], 9)
    assert plot.tick_names([0.0, 2.5e-9, 5e-9]) == (["0.0", "2.5", "5.0"], -9)
    assert plot.Axis.share("", 0, 0.05).names == [f"{k}\u00a0%" for k in range(6)]
    assert plot.Axis.share("", 0, 0.12).names[1] == "2.5\u00a0%"
    assert list(plot.Axis.whole("", 0.5, 3.5).names) == ["1", "2", "3"]
    for value in (0.0, 7.0, -1e-9):  # one value only still has an axis around it
        axis = plot.Axis.over("", [value, value])
        assert axis.low <= value <= axis.high
        assert axis.low < axis.high


def test_bins_hold_everything():
    for values in ([3.0], [0.0, 0.0], [-1e9, 3e9], [1e-9, 2e-9], [0.1, 0.2, np.nan]):
        edges = plot.bins(values)
        assert edges[0] <= np.nanmin(values)
        assert np.nanmax(values) <= edges[-1]
        assert (np.diff(edges) > 0).all()


def test_a_line_is_broken_where_nothing_is_known():
    chart = plot.Chart("t", plot.Axis("x", 0, 3), plot.Axis("y", 0, 1)).line([0, 1, 2, 3], [0, np.nan, 1, 9])
    assert chart.marks[0].count("M") == 2
    assert f"{float(plot.TOP):.1f}" in chart.marks[0]  # beyond the axis is drawn at its edge


def level(facts: ReportData) -> str:
    return judge(facts).level


def test_sound_posteriors_are_good():
    for facts in (pages.regression(), pages.classification()):
        told = judge(facts)
        assert told == ("good", ())
        assert told.headline == "You can use this posterior."


def test_findings_of_the_diagnosis_are_passed_on_once():
    facts = pages.regression()
    one = Finding("one_chain", value=1, limit=2)
    told = judge(replace(facts, diagnosis=facts.diagnosis._replace(findings=(one,))))
    assert told == ("care", (one,))
    assert told.sentences == (sentence(one),)
    for case, code in ((pages.off, "rhat"), (pages.one_left, "diverged"), (pages.undiagnosed, "too_few_draws")):
        found = judge(case())
        assert found.level == "stop"
        assert [f.level for f in found.findings if f.code == code] == ["stop"]  # said once, at the rule's level


def test_a_verdict_for_json_has_codes_levels_and_numbers():
    body = json.loads(json.dumps(judge(pages.off()).as_dict(), allow_nan=False))
    assert body["level"] == "stop"
    assert body["headline"] == "Do not use this posterior yet."
    found = {f["code"]: f for f in body["findings"]}
    assert found["rhat"]["level"] == "stop"
    assert found["rhat"]["value"] > found["rhat"]["limit"] == 1.01
    assert "predictions" in found["rhat"]["names"]
    assert found["intervals_narrow"]["value"] < found["intervals_narrow"]["limit"] < 0.9
    assert all(f["sentence"] for f in body["findings"])


def test_every_code_has_a_sentence():
    of = lambda module: set(re.findall(r'Finding\(\s*"(\w+)"', inspect.getsource(module)))
    assert of(convergence) == set(findings.SENTENCES)
    outside = {"intervals_narrow", "intervals_wide", "overconfident", "underconfident"}
    assert of(verdict) | of(convergence) | outside == set(words.SENTENCES)


@pytest.mark.parametrize(
    ("rhat", "expected"),
    [([1.0, 1.005], "good"), ([1.0, 1.05], "care"), ([1.0, 1.2], "stop"), ([np.inf, 1.0], "stop")]
    + [([np.nan, 1.0], "care"), ([np.nan, np.nan], "stop"), ([], "stop")],
)
def test_rhat_sets_the_level(rhat, expected):
    facts = pages.regression(rows=60, draws=60)
    bare = facts.diagnosis._replace(rhat={"predictions": np.array(rhat)}, findings=())
    told = judge(replace(facts, diagnosis=bare))
    assert told.level == expected
    assert len(told.sentences) == (expected != "good")


def test_weights_that_do_not_mix_are_no_reason_to_stop():
    facts = pages.regression()
    d = facts.diagnosis
    assert level(replace(facts, diagnosis=d._replace(rhat={**d.rhat, "weights": np.array([3.0])}))) == "good"


def test_divergence_and_law():
    facts = pages.regression()
    divergent = lambda *lost: replace(facts, diagnosis=facts.diagnosis._replace(divergent=lost))
    assert level(divergent(0)) == "good"  # the diagnosis itself would have warned
    assert level(divergent(0, 3)) == "stop"
    wrong = judge(replace(facts, law_kind="wrong", law="p/D"))
    assert wrong.level == "stop"
    assert "(p/D)" in wrong.sentences[0]


@pytest.mark.parametrize(("factor", "words"), [(0.4, "too narrow"), (3.0, "too wide")])
def test_coverage_has_a_direction(factor, words):
    facts = pages.regression()
    told = judge(replace(facts, predictions=replace(facts.predictions, std=factor * facts.predictions.std), start=None))
    assert told.level == "care"
    assert words in told.sentences[0]
    assert words in page(replace(facts, predictions=replace(facts.predictions, std=factor * facts.predictions.std)))


@pytest.mark.parametrize(("power", "words"), [(4.0, "overconfident"), (0.35, "less sure")])
def test_confidence_has_a_direction(power, words):
    facts = pages.classification()
    proba = facts.predictions.proba**power
    told = judge(replace(facts, predictions=Predictions(proba=proba / proba.sum(axis=-1, keepdims=True)), start=None))
    assert told.level == "care"
    assert words in told.sentences[0]


def test_a_better_start_is_told():
    facts = pages.regression()
    exact = Predictions(mean=facts.y[None] + 0.1, std=np.full((1, len(facts.y)), 5.0))
    told = judge(replace(facts, start=exact))
    assert told.level == "care"
    assert "deep ensemble" in told.sentences[0]
    impossible = replace(pages.classification(), start=Predictions(proba=np.eye(3)[None, np.zeros(300, int)]))
    assert level(impossible) == "good"  # a start that held labels impossible is worse, and no reason to crash
    assert "∞" in page(impossible)


def test_few_rows_and_a_run_stopped_early():
    assert "too few rows" in judge(pages.regression(rows=12)).sentences[0]
    assert "stopped early" in judge(replace(pages.regression(), draws_wanted=400)).sentences[0]


@pytest.mark.parametrize(("error", "level"), [(0.02, "good"), (0.2, "care"), (0.6, "stop")])
def test_monte_carlo_error_decides_where_it_is_known(error, level):
    """Chains that disagree (R̂ 1.3) may be used if their answers are known well enough."""
    facts = pages.regression()
    apart = Finding("rhat", "care", ("predictions",), value=1.3, limit=1.01, details=dict(worst="predictions"))
    diagnosis = facts.diagnosis._replace(rhat={"predictions": np.full(20, 1.3)}, findings=(apart,))
    facts = replace(facts, diagnosis=diagnosis, error=np.full(20, error))
    said = judge(facts)
    assert said.level == level
    assert any("known to" in sentence for sentence in said.sentences) == (level != "good")
    assert any("R-hat" in sentence for sentence in said.sentences) == (level != "good")
    assert judge(replace(facts, error=None)).level == "stop"


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_monte_carlo_error_is_that_of_chains_that_live(task):
    """Chains that say 0.5 ± 0.1 each at random, one lost: 0.1/√(m · variance of the answer), on average over rows."""
    random, chains, rows = np.random.default_rng(0), 9, 400
    followed = np.repeat(0.5 + 0.1 * random.normal(size=(chains, 1, rows)), 3, axis=1)
    followed[4] = 1e3
    total = SimpleNamespace(total=np.full(rows, 0.25))
    model = SimpleNamespace(posterior_=SimpleNamespace(diverged=(4,)), task=task, uncertainty=lambda X: total)
    error = _error(model, None, followed)
    assert error.shape == (rows,)
    spread = np.sqrt(np.mean(error**2)) * np.sqrt((chains - 1) * 0.25)
    # in classification the answer's variance is m(1 - m), 0.25 less the variance of the chains' mean: 1 in 200
    assert abs(spread / 0.1 - 1) < 5 * np.sqrt(1 / (2 * (chains - 2) * rows)) + 0.01
    model.posterior_.diverged = (1,)
    assert _error(model, None, followed[:2]) is None
