"""The section of scores: the posterior beside the deep ensemble it started from and beside simpler models."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from langevin.report.classes import confusion as tally_of
from langevin.report.classes import each_class
from langevin.report.data import ReportData
from langevin.report.markup import confusion, definitions, pair, paragraph, part, section, table
from langevin.report.numbers import count, number, percent, short
from langevin.report.plot import Axis, Chart
from langevin.report.scores import MEANINGS, SHARES, Gap, compare_baselines, gap, scores
from langevin.report.verdict import STDERRS

MODELS = {
    "ensemble": "deep ensemble (the start)",
    "trivial": "trivial answer (uses no feature)",
    "linear": "linear model",
    "boosting": "gradient boosting",
}
SHORTER = {"ensemble": "deep ensemble", "trivial": "trivial answer", "linear": "linear model", "boosting": "boosting"}
CLASSES = 12  # a confusion table of more is a list of mistakes instead
NAME = 14  # letters of a class name on an axis


def compared(facts: ReportData, own: dict[str, float]) -> Markup:
    others = _others(facts, own)
    measure = "CRPS" if facts.task == "regression" else "Brier"
    lead = (
        "Scores of the test rows. Every model was trained on the same rows. Skill is 1 − "
        f"{measure} ÷ {measure} of the other model: 0\u00a0% is no better than it. The error behind ± is the standard "
        "error of the difference over the same rows."
        if others
        else "Scores of the test rows. No other models were fitted to compare with"
        + (" yet: they come when sampling has ended." if facts.running else "; `langevin fit` fits them.")
    )
    parts = [_table(own, others)]
    meanings = definitions({name: MEANINGS[name] for name in own}, "What the scores mean")
    if others:
        parts.append(pair(_differences(others).html() + paragraph(_told(others)), meanings))
    else:
        parts.append(meanings)
    if facts.task == "classification":
        parts.append(_classes(facts))
    return section("scores", "Scores", lead, *parts)


def _others(facts: ReportData, own: dict[str, float]) -> dict[str, tuple[dict[str, float], Gap, str]]:
    """Scores, the difference in NLL and the skill, of every other model."""
    found = {}
    started = gap(facts, facts.start)
    if facts.start is not None and started is not None:
        found["ensemble"] = (scores(facts, facts.start), started, "")
    return found | {c.name: (c.scores, c.gap, percent(c.skill)) for c in reversed(compare_baselines(facts, own))}


def _table(own: dict[str, float], others: dict[str, tuple[dict[str, float], Gap, str]]) -> Markup:
    form = lambda name, v: percent(v) if name in SHARES else number(v, 4)
    blank = ("", "") if others else ()
    rows: list[tuple[str, ...]] = [("this posterior", *(form(n, v) for n, v in own.items()), *blank)]
    rows += [
        (MODELS[name], *(form(n, theirs[n]) for n in own), f"{number(g.mean)} ± {number(g.stderr, 2)}", skill)
        for name, (theirs, g, skill) in others.items()
    ]
    ends = ("NLL, posterior less this", "Skill over it") if others else ()
    return table(("Model", *own, *ends), rows, "Scores of the test rows")


def _differences(others: dict[str, tuple[dict[str, float], Gap, str]]) -> Chart:
    mean, stderr = (np.array([getattr(g, k) for _, g, _ in others.values()]) for k in ("mean", "stderr"))
    reach = STDERRS * np.nan_to_num(stderr)
    at = np.arange(len(others), 0, -1.0)
    finite = np.isfinite(mean)
    chart = Chart(
        "NLL of the posterior less that of …",
        Axis.over("Difference (below 0: posterior better)", (mean - reach)[finite], (mean + reach)[finite], [0.0]),
        Axis("", 0.4, len(others) + 0.6, list(at), [SHORTER[name] for name in others]),
        "; ".join(f"{SHORTER[k]}: {number(g.mean)} ± {number(g.stderr, 2)}" for k, (_, g, _) in others.items()) + ".",
        height=max(180, 110 + 34 * len(others)),
    )
    chart.whiskers(at, mean - reach, mean + reach, "a", "two standard errors", across=True).rule(x=0.0, name="equal")
    return chart.points(mean, at, "ink", "difference", size=4.2)


def _told(others: dict[str, tuple[dict[str, float], Gap, str]]) -> str:
    """Whom the posterior is clearly better than, and whom not, by the rule of the verdict."""
    kinds: dict[str, list[str]] = {
        "clearly better than": [],
        "not clearly different from": [],
        "clearly worse than": [],
    }
    for name, (_, g, _) in others.items():
        clear = abs(g.mean) > STDERRS * g.stderr
        kind = (
            "not clearly different from" if not clear else "clearly better than" if g.mean < 0 else "clearly worse than"
        )
        kinds[kind].append(f"the {SHORTER[name]}" if name != "boosting" else "boosting")
    said = "; ".join(f"{kind} {', '.join(names)}" for kind, names in kinds.items() if names)
    return f"In NLL the posterior is {said}. A difference of more than {STDERRS:g} standard errors is called clear."


def _classes(facts: ReportData) -> Markup:
    found = each_class(facts, facts.predictions)
    order = sorted(range(len(found)), key=lambda k: (np.nan_to_num(found[k].recall, nan=2.0), k))
    shown = sorted(order[:CLASSES])
    rows = [
        (c.name, count(c.rows), percent(c.recall), percent(c.precision), number(c.auc), number(c.pr_auc))
        for c in (found[k] for k in shown)
    ]
    head = ("Class", "Test rows", "Recall", "Precision", "AUC", "PR AUC")
    few = (
        f" The {len(shown)} of {len(found)} classes with the lowest recall are shown."
        if len(shown) < len(found)
        else ""
    )
    return part(
        "classes",
        "Class by class",
        "Recall is the share of a class’s rows that are answered so; precision is the share of such answers that are "
        f"right. The answer is the most probable class.{few}",
        pair(table(head, rows, "Each class against the rest"), _confusion(facts)),
    )


def _confusion(facts: ReportData) -> Markup:
    names, tally = facts.classes or (), tally_of(facts, facts.predictions)
    if len(names) > CLASSES:
        return _mistakes(names, tally)
    cells = [[(count(int(n)), f"{n / max(row.sum(), 1):.2f}") for n in row] for row in tally]
    return confusion(
        "True class (rows) and predicted class (columns)", [(name, short(name, NAME)) for name in names], cells
    )


def _mistakes(names: tuple[str, ...], tally: np.ndarray) -> Markup:
    wrong = tally * (1 - np.eye(len(names), dtype=int))
    worst = np.argsort(-wrong, axis=None, kind="stable")[:CLASSES]
    places = [divmod(int(flat), len(names)) for flat in worst]
    rows = [
        (names[i], names[j], count(int(wrong[i, j])), percent(wrong[i, j] / max(tally[i].sum(), 1), 0))
        for i, j in places
        if wrong[i, j]
    ]
    head = ("True class", "Taken for", "Test rows", "Of its class")
    return table(head, rows, f"The most frequent mistakes among {len(names)} classes", text=(0, 1))
