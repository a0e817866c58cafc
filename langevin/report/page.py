"""One self-contained HTML page about a fitted posterior: it opens anywhere and asks nothing of the network."""

from __future__ import annotations

from importlib import resources

from langevin.report import classification, regression, sampling, sections
from langevin.report.data import ReportData
from langevin.report.evidence import evidence
from langevin.report.markup import esc, section
from langevin.report.numbers import SPACE, count, number, percent, percents, rhat_words, several, short
from langevin.report.scores import COVERAGE, chains_and_draws, chance, mixing, scores
from langevin.report.verdict import Verdict, judge

SHORT = {
    "verdict": "Verdict",
    "data": "Data",
    "calibration": "Calibration",
    "coverage": "Coverage",
    "pit": "PIT",
    "predictions": "Predictions",
    "uncertainty": "Uncertainty",
    "chains": "Chains",
    "energy": "Energy",
    "ensemble": "Ensemble",
    "evidence": "Evidence",
    "strangers": "Strangers",
    "audit": "Audit",
    "provenance": "Provenance",
}
IN_CLASSES = {"coverage": "Answers", "pit": "Classes"}
MARKS = {
    "good": ("Good", '<circle cx="12" cy="12" r="11"/><path d="M6.5 12.5l3.6 3.7 7.2-8"/>'),
    "care": ("Care", '<path d="M12 1.5L23 21.5H1Z"/><path d="M12 8.5v6.5m0 2.6v.4"/>'),
    "stop": ("Stop", '<path d="M7.5 1h9L23 7.5v9L16.5 23h-9L1 16.5v-9Z"/><path d="M7.8 7.8l8.4 8.4m0-8.4l-8.4 8.4"/>'),
}
TARGET = 40  # letters of its name on a tile
ABOUT = {
    "NLL": "nats a row, lower is better",
    "Brier": "0 is best, 2 is worst",
    "ECE": "mean gap of confidence, 0 is best",
    "Accuracy": "share of right answers",
}


def page(facts: ReportData) -> str:
    """The whole report as HTML."""
    return shell(facts.name, body(facts))


def body(facts: ReportData) -> str:
    """What the report shows: header, contents and sections."""
    own = scores(facts, facts.predictions)
    start = None if facts.start is None else scores(facts, facts.start)
    of_task = regression if facts.task == "regression" else classification
    parts = [
        _verdict(facts, judge(facts), own),
        sections.data(facts),
        of_task.calibration(facts),
        of_task.coverage(facts),
        of_task.pit(facts),
        of_task.predictions(facts),
        sections.uncertainty(facts),
        sampling.chains(facts),
        sampling.energy(facts),
        sections.ensemble(facts, own, start),
        evidence(facts),
        sections.strangers(facts),
        sampling.audit(facts),
        sections.provenance(facts),
    ]
    return f"{_header(facts)}\n{_contents(facts)}\n<main>\n" + "\n".join(parts) + "\n</main>"


def shell(name: str, inside: str, *, script: str = "") -> str:
    """A document around it, which may load nothing, and run nothing but a script of ours."""
    style = resources.files("langevin.report").joinpath("style.css").read_text("utf-8")
    allowed = " script-src 'unsafe-inline'; connect-src 'self';" if script else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        # belt and braces: even a name that slipped through unescaped could load or run nothing
        f'<meta http-equiv="Content-Security-Policy" content="default-src \'none\';{allowed} '
        "style-src 'unsafe-inline'; "
        'img-src data:">\n<link rel="icon" href="data:,">\n'
        f"<title>{esc(name)}: report of a posterior</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        + inside
        + (f"\n<script>{script}</script>" if script else "")
        + "\n</body>\n</html>\n"
    )


def _header(facts: ReportData) -> str:
    chains, draws = chains_and_draws(facts)
    task = {"regression": "Regression", "classification": f"Classification in {len(facts.classes or ())} classes"}
    told = (
        f"{task[facts.task]} of <strong>{esc(facts.target)}</strong>, {several(len(facts.y), 'test row')}, "
        f"{several(chains, 'chain') + ' of ' if chains else ''}{several(draws, 'draw')}"
    )
    return f'<header><p class="kicker">langevin report</p><h1>{esc(facts.name)}</h1><p>{told}</p></header>'


def _contents(facts: ReportData) -> str:
    names = SHORT if facts.task == "regression" else SHORT | IN_CLASSES
    links = "".join(f'<li><a href="#{name}">{words}</a></li>' for name, words in names.items())
    return f'<nav aria-label="Contents"><ul>{links}</ul></nav>'


def _verdict(facts: ReportData, verdict: Verdict, own: dict[str, float]) -> str:
    word, mark = MARKS[verdict.level]
    icon = f'<svg class="mark" viewBox="0 0 24 24" aria-hidden="true">{mark}</svg>'
    said = "".join(f"<li>{esc(sentence.replace('R-hat', 'R̂'))}</li>" for sentence in verdict.sentences)
    calm = "<p>Nothing speaks against it: the chains agree, and the predictions are as sure as they should be.</p>"
    body = (
        f'<div class="verdict {verdict.level}"><p class="level">{icon}<span>{word}</span></p>'
        f'<p class="headline">{verdict.headline}</p>{f"<ul>{said}</ul>" if said else calm}</div>'
    )
    lead = "May this posterior be used? The figures are of test rows that the model has not seen."
    return section("verdict", "Verdict", lead, body, _tiles(facts, own))


def _tiles(facts: ReportData, own: dict[str, float]) -> str:
    target = short(facts.target, TARGET)
    about = {**ABOUT, "RMSE": f"of {target}", "CRPS": f"of {target}, lower is better"}
    tiles = []
    for name, value in own.items():
        if name == COVERAGE:
            tiles.append(
                (name.replace(" %", SPACE + "%"), percent(value), "by chance " + percents(*chance(len(facts.y), 0.9)))
            )
        else:
            tiles.append((name, percent(value) if name == "Accuracy" else number(value), about[name]))
    m = mixing(facts.diagnosis)
    tiles.append(("Worst R̂", rhat_words(m.rhat), "of predictions, want below 1.01"))
    bulk = count(round(m.bulk)) if m.bulk == m.bulk else number(m.bulk)
    tiles.append(("Least ESS", bulk, "of predictions, want 100 a chain"))
    inside = "".join(f"<div><dt>{esc(n)}</dt><dd>{esc(v)}</dd><dd>{esc(a)}</dd></div>" for n, v, a in tiles)
    return f'<dl class="tiles">{inside}</dl>'
