"""What drives a prediction: permutation importance of the columns, and partial dependence on the first of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from langevin.estimators.columns import raw_columns
from langevin.estimators.network import NetworkEstimator
from langevin.report.data import ReportData
from langevin.report.markup import pair, paragraph, section
from langevin.report.numbers import number, short
from langevin.report.plot import Axis, Chart

ROWS = 256  # by which columns are chosen, where there are many
COLUMNS, BUDGET = 64, 200  # columns that are shuffled at most, and shuffles of all of them together, about
SHOWN, CURVES, CLASSES = 12, 3, 4  # columns in the chart of importances, curves drawn, and classes of a curve
NAME, LEVEL = 20, 12  # letters of a column and of a level on an axis
STDERRS = 2.0  # standard errors from which an importance is told apart from 0


def explain(estimator: NetworkEstimator, X: Any, y: np.ndarray) -> tuple[tuple[dict, ...], tuple[dict, ...]]:
    """Importances of the columns of the table, and curves of the most important, from rows the model has not seen."""
    columns = _tried(estimator, X)
    if not columns:
        return (), ()
    repeats = int(np.clip(BUDGET // len(columns), 2, 5))
    table = estimator.permutation_importance(X, y, columns=columns, repeats=repeats)
    drivers = tuple(
        dict(column=str(name), increase=float(row["increase"]), stderr=float(row["stderr"]))
        for name, row in table.iterrows()
    )
    clear = [name for name, row in table.iterrows() if row["increase"] > STDERRS * row["stderr"]]
    return drivers, tuple(_curve(estimator, X, name) for name in clear[:CURVES])


def _tried(estimator: NetworkEstimator, X: Any) -> list[Any]:
    """The columns that the network sees; of many those whose values follow the predictions of some rows most."""
    names = list(X.columns) if hasattr(X, "columns") else list(range(np.asarray(X).shape[1]))
    widths = [len(column.names) for column in estimator.columns_.every]
    used = [i for i, width in enumerate(widths) if width]
    if len(used) > COLUMNS:
        some = X[:ROWS]
        inputs, said = estimator.columns_.encoded(raw_columns(some)), estimator.predictive(some, start=True)
        answer = np.mean(said["mean" if "mean" in said else "proba"], axis=0).reshape(len(inputs), -1)
        standard = lambda u: (u - u.mean(axis=0)) / np.maximum(u.std(axis=0), 1e-12)
        follows = np.abs(standard(inputs).T @ standard(answer)).max(axis=1)
        ends = np.cumsum(widths)
        strength = [follows[ends[i] - widths[i] : ends[i]].max() for i in used]
        used = [used[i] for i in np.sort(np.argsort(strength)[-COLUMNS:])]
    return [names[i] for i in used]


def _curve(estimator: NetworkEstimator, X: Any, column: Any) -> dict[str, Any]:
    found = estimator.partial_dependence(X, column)
    classes = len(found["class"].unique()) if "class" in found else 0
    shape = (-1, classes) if classes else (-1,)
    values = found["value"].tolist()[:: classes or 1]
    numbers = all(isinstance(v, int | float | np.number) and not isinstance(v, bool | np.bool_) for v in values)
    at = np.array(values, float) if numbers else np.arange(len(values), dtype=float)
    levels = None if numbers else tuple(map(str, values))
    bands = {k: found[k].to_numpy(float).reshape(shape) for k in ("mean", "low", "high")}
    return dict(column=str(column), levels=levels, at=at) | bands


def drivers(facts: ReportData) -> Markup:
    title = "What drives a prediction"
    if not facts.drivers:
        why = "it comes when sampling has ended" if facts.running else "`langevin fit` finds it out"
        return section("drivers", title, f"Which columns the predictions need is not known yet: {why}.")
    lead = (
        "A column matters if the test rows are predicted worse, in NLL, when its values are shuffled among them. "
        "Bars reach two standard errors over rows to each side. Columns that say the same share their importance."
    )
    charts = [_importances(facts).html(), *(_dependence(facts, curve).html() for curve in facts.curves)]
    if int(facts.data.get("columns", "0").replace(",", "")) > COLUMNS:
        lead += f" Of all columns the {COLUMNS} were tried that follow the predictions most."
    told = (
        "The curves show the prediction averaged over test rows as one column changes and all else stays as it is. The "
        "band holds 90\u00a0% of the draws of the posterior: what is not known of the curve, without the noise of "
        "single rows. They describe the model, and no cause and effect."
    )
    rest = [pair(*charts[i : i + 2]) for i in range(0, len(charts), 2)]
    return section("drivers", title, lead, *rest, *([paragraph(told)] if facts.curves else []))


def _importances(facts: ReportData) -> Chart:
    shown = facts.drivers[:SHOWN]
    increase, stderr = (np.array([d[k] for d in shown]) for k in ("increase", "stderr"))
    at = np.arange(len(shown), 0, -1.0)
    names = [short(d["column"], NAME) for d in shown]
    more = f" The {len(shown)} largest of {len(facts.drivers)}." if len(facts.drivers) > len(shown) else ""
    low, high = increase - STDERRS * stderr, increase + STDERRS * stderr
    chart = Chart(
        "Increase of NLL when a column is shuffled",
        Axis.over("Increase of NLL (nats a row)", low, high, [0.0], pad=0.06),
        Axis("Column", 0.3, len(shown) + 0.7, list(at), names),
        "; ".join(f"{n}: {number(v)} ± {number(e, 2)}" for n, v, e in zip(names, increase, stderr, strict=True)) + more,
        height=max(200, 110 + 26 * len(shown)),
    )
    chart.whiskers(at, low, high, "a", "two standard errors", across=True).rule(x=0.0, name="no change")
    return chart.points(increase, at, "ink", "increase", size=4.0)


def _dependence(facts: ReportData, curve: dict[str, Any]) -> Chart:
    """One curve, or in a classification of more than two classes one for each of the first classes."""
    classes, at, levels = facts.classes or (), np.asarray(curve["at"], float), curve["levels"]
    mean, low, high = (np.asarray(curve[k], float) for k in ("mean", "low", "high"))
    if facts.task == "classification":
        order = [len(classes) - 1] if len(classes) == 2 else list(np.argsort(-np.ptp(mean, axis=0), kind="stable"))
        shown = order[:CLASSES]
        label = f"Probability of {short(classes[shown[0]], NAME)}" if len(shown) == 1 else "Probability"
        up = Axis.share(label, 0.0, min(1.0, 1.05 * float(high[:, shown].max())))
        lines = [(mean[:, k], low[:, k], high[:, k], short(classes[k], NAME)) for k in shown]
    else:
        up, lines = Axis.over(f"Mean of {short(facts.target, NAME)}", low, high), [(mean, low, high, "mean")]
    column = short(curve["column"], NAME)
    across = Axis.over(column, at) if levels is None else _levels(column, levels)
    chart = Chart(f"Partial dependence on {short(curve['column'], 40)}", across, up, f"Of {len(at)} values.")
    for i, (middle, bottom, top, name) in enumerate(lines):
        kind = "a" if len(lines) == 1 else f"c{i}"
        band = "90 % of draws" if len(lines) == 1 else ""
        if levels is None:
            chart.band(at, bottom, top, f"{kind} pale", band).line(at, middle, kind, name)
        else:
            place = at + (i - (len(lines) - 1) / 2) * 0.15
            chart.whiskers(place, bottom, top, kind, band).points(place, middle, kind, name, size=4.0)
    return chart


def _levels(label: str, levels: tuple[str, ...]) -> Axis:
    return Axis(label, -0.6, len(levels) - 0.4, list(range(len(levels))), [short(v, LEVEL) for v in levels])
