"""The report's words and numbers: every section for every kind of fit, nothing unescaped, a verdict that is right."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pages
import pytest
from jinja2 import UndefinedError
from markupsafe import Markup
from scipy.stats import binom

from langevin.diagnostics import calibration as cal
from langevin.report import markup, numbers, plot, scores
from langevin.report.data import ReportData
from langevin.report.page import SHORT, page

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
    linked = [value[1:] for tag, name, value in found.attributes if (tag, name) == ("a", "href")]
    assert found.sections == linked
    assert found.sections in (list(SHORT), [name for name in SHORT if name != "evidence"])
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


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "/tmp/<b>&amp;.csv",
)


def named(facts: ReportData, text: str) -> ReportData:
    """The text in every place that takes some from outside: columns, classes, paths, quantities."""
    each = {text: text}
    return replace(
        facts,
        **dict(name=text, target=text, data=each, model=each, provenance=each, notes=(text,), references=(text,)),
        **dict(law=text, audit=(each,), audit_outcome=text, chains={text: facts.chains["log density"]}),
        classes=facts.classes and (text, *facts.classes[1:]),
    )


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("case", [pages.regression, pages.classification])
def test_hostile_names_and_paths_stay_text(case, text):
    shape = lambda found: [(tag, name) for tag, name, _ in found.attributes]
    hostile, plain = (Reader(page(named(case(rows=40, draws=20), name))) for name in (text, "n"))
    assert shape(hostile) == shape(plain)  # no element and no attribute more
    assert any(text in part for part in hostile.text)  # and it is read as it was written


def test_templates_escape_and_are_strict():
    made = markup.table(["<a>"], [["<b>", Markup("<i>x</i>")]], '"c"')
    assert "&lt;a&gt;" in made
    assert "&lt;b&gt;" in made
    assert "<i>x</i>" in made
    assert 'aria-label="&#34;c&#34;"' in made
    with pytest.raises(UndefinedError, match="'script' is undefined"):
        markup.render("page.html", name="n", inside="", style="")


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
