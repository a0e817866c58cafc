"""One self-contained HTML page about a fitted posterior: it opens anywhere and asks nothing of the network."""

from __future__ import annotations

from importlib import resources

from markupsafe import Markup

from langevin.diagnostics.convergence import ESS, RHAT
from langevin.report import classification, regression, sampling, sections
from langevin.report.data import ReportData
from langevin.report.evidence import evidence
from langevin.report.markup import render
from langevin.report.numbers import SPACE, count, number, percent, percents, rhat_words, several, short
from langevin.report.scores import (
    BALANCED,
    COVERAGE,
    SHARES,
    chains_and_draws,
    chance,
    compare_baselines,
    mixing,
    scores,
)
from langevin.report.verdict import ERROR, RHAT_STOP, error, is_precise, judge

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
    "baselines": "Baselines",
    "ensemble": "Ensemble",
    "evidence": "Evidence",
    "ood": "OOD",
    "audit": "Audit",
    "provenance": "Provenance",
}
IN_CLASSES = {"coverage": "Answers", "pit": "Classes"}
OVER = {"trivial": "the trivial answer", "linear": "a linear model", "boosting": "boosting"}
TARGET = 40  # letters of its name on a tile
ABOUT = {
    "NLL": "nats a row, lower is better",
    "Brier": "0 is best, 2 is worst",
    "ECE": "mean gap of confidence, 0 is best",
    "Accuracy": "share of right answers",
    BALANCED: "mean over classes of the share found",
    "AUC": "½ is chance, 1 is best",
    "R²": "share of the variance explained",
}


def page(facts: ReportData) -> str:
    """The whole report as HTML."""
    return document(facts.name, body(facts))


def body(facts: ReportData) -> Markup:
    """What the report shows: header, contents and sections."""
    own = scores(facts, facts.predictions)
    start = None if facts.start is None else scores(facts, facts.start)
    of_task = regression if facts.task == "regression" else classification
    parts = [
        sections.data(facts),
        of_task.calibration(facts),
        of_task.coverage(facts),
        of_task.pit(facts),
        of_task.predictions(facts),
        sections.uncertainty(facts),
        sampling.chains(facts),
        sampling.energy(facts),
        sections.baselines(facts, own),
        sections.ensemble(facts, own, start),
        evidence(facts),
        sections.out_of_distribution(facts),
        sampling.audit(facts),
        sections.provenance(facts),
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
        contents=SHORT if facts.task == "regression" else SHORT | IN_CLASSES,
        verdict=judge(facts),
        tiles=_tiles(facts, own),
        sections=parts,
    )


def document(name: str, inside: Markup, *, script: str = "") -> str:
    """A document around it, which may load nothing, and run nothing but a script of ours."""
    style = resources.files("langevin.report").joinpath("style.css").read_text("utf-8")
    return str(render("page.html", name=name, inside=inside, style=Markup(style), script=Markup(script)))


def _tiles(facts: ReportData, own: dict[str, float]) -> list[tuple[str, str, str]]:
    """Name, value and what it means, of every figure below the verdict."""
    target = short(facts.target, TARGET)
    tiles = []
    if found := compare_baselines(facts):
        first, *others = [(percent(c.skill, 0), OVER[c.name]) for c in found]
        over = "".join(f"; {value} over {name}" for value, name in others)
        tiles.append(("Skill", first[0], f"over {first[1]}{over}"))
    about = {**ABOUT, "RMSE": f"of {target}", "CRPS": f"of {target}, lower is better"}
    for name, value in own.items():
        if name == COVERAGE:
            tiles.append(
                (name.replace(" %", SPACE + "%"), percent(value), "by chance " + percents(*chance(len(facts.y), 0.9)))
            )
        else:
            tiles.append((name, percent(value) if name in SHARES else number(value), about[name]))
    m = mixing(facts.diagnosis)
    bulk = count(round(m.bulk)) if m.bulk == m.bulk else number(m.bulk)
    if (known := error(facts)) == known:
        tiles.append(("Monte Carlo error", percent(known), f"of the predicted std., want below {percent(ERROR, 0)}"))
    agree, enough = f"want below {RHAT}", f"want {ESS} a chain"
    if is_precise(facts):
        small = f"while that error is below {percent(ERROR, 0)}"
        agree, enough = f"up to {RHAT_STOP} will do {small}", f"enough {small}"
    tiles.append(("Worst R̂", rhat_words(m.rhat), f"of predictions, {agree}"))
    tiles.append(("Least ESS", bulk, f"of predictions, {enough}"))
    return tiles
