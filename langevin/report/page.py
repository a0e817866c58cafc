"""One self-contained HTML page about a fitted posterior: it opens anywhere and asks nothing of the network."""

from __future__ import annotations

from importlib import resources

from markupsafe import Markup

from langevin.report import classification, regression, sampling, sections
from langevin.report.compared import compared
from langevin.report.data import ReportData
from langevin.report.drivers import drivers
from langevin.report.evidence import evidence, weighed
from langevin.report.markup import render
from langevin.report.numbers import several
from langevin.report.scores import chains_and_draws, scores
from langevin.report.tiles import tiles
from langevin.report.verdict import judge

SHORT = {
    "verdict": "Verdict",
    "scores": "Scores",
    "calibration": "Calibration",
    "predictions": "Predictions",
    "drivers": "Drivers",
    "sampling": "Sampling",
    "evidence": "Evidence",
    "ood": "OOD rows",
    "data": "Data and model",
}
"""Sections in order, by their short names; evidence only where there is some."""


def page(facts: ReportData) -> str:
    """The whole report as HTML."""
    return document(facts.name, body(facts))


def body(facts: ReportData) -> Markup:
    """What the report shows: header, contents and sections."""
    own, verdict = scores(facts, facts.predictions), judge(facts)
    of_task = regression if facts.task == "regression" else classification
    parts = [
        compared(facts, own),
        of_task.calibration(facts, verdict),
        of_task.predictions(facts),
        drivers(facts),
        sampling.sampling(facts),
        *([evidence(facts)] if weighed(facts) else []),
        sections.out_of_distribution(facts),
        sections.data(facts),
    ]
    chains, draws = chains_and_draws(facts)
    task = {"regression": "Regression", "classification": f"Classification in {len(facts.classes or ())} classes"}
    sampled = f"{several(chains, 'chain') + ' of ' if chains else ''}{several(draws, 'draw')}"
    return render(
        "report.html",
        name=facts.name,
        task=task[facts.task],
        target=facts.target,
        about=f"{several(len(facts.y), 'test row')}, {sampled}",
        contents={k: v for k, v in SHORT.items() if k != "evidence" or weighed(facts)},
        verdict=verdict,
        tiles=tiles(facts, own, verdict),
        sections=parts,
    )


def document(name: str, inside: Markup, *, script: str = "") -> str:
    """A document around it, which may load nothing, and run nothing but a script of ours."""
    style = resources.files("langevin.report").joinpath("style.css").read_text("utf-8")
    return str(render("page.html", name=name, inside=inside, style=Markup(style), script=Markup(script)))
