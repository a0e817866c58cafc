"""Sections about the predictions of a classification: can its probabilities be taken at their word?"""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from langevin.diagnostics import calibration as cal
from langevin.report.data import ReportData
from langevin.report.markup import pair, paragraph, part, section, table
from langevin.report.numbers import count, number, percent, percents, several, short
from langevin.report.plot import Axis, Chart, drawn, spread
from langevin.report.scores import against, average, chance, chance_of
from langevin.report.sections import uncertainty
from langevin.report.verdict import CHANCE, Verdict

ROWS = 150  # drawn of the test rows
FEW = 15  # a bin of fewer rows says little and is drawn lighter
CALIBRATED = 30  # classes drawn in the calibration of each class
NAME = 14  # letters of a class name on an axis


def calibration(facts: ReportData, verdict: Verdict) -> Markup:
    p = average(facts.predictions)
    found = cal.reliability(facts.y, p, bins=10 if len(facts.y) < 1000 else 15)
    full = found.size > 0
    sure, right, size = found.confidence[full], found.accuracy[full], found.size[full]
    low, high = np.transpose([chance(int(n), float(np.clip(c, 0, 1)), CHANCE) for n, c in zip(size, sure, strict=True)])
    across = Axis.share("Confidence in the answer", _least(facts))
    chart = Chart(
        "Confidence and accuracy",
        across,
        Axis.share("Share of right answers"),
        f"Expected calibration error {number(cal.ece(facts.y, p))}.",
    )
    many = size >= FEW
    chart.whiskers(sure, low, high, "soft", f"by chance ({percent(CHANCE)})").diagonal("perfect")
    chart.points(sure[many], right[many], "a", "bin of test rows", size=5.5)
    if not many.all():
        chart.points(sure[~many], right[~many], "a pale", f"fewer than {FEW} rows", size=5.5)
    chart.label(across.low + 0.03 * (1 - across.low), 0.9, "too cautious").label(0.99, 0.04, "overconfident", "end")
    counts = Chart(
        "Test rows in each bin of confidence",
        across,
        Axis.whole("Test rows", 0, 1.05 * float(found.size.max())),
        "; ".join(f"{n} rows around {percent(c, 0)}" for n, c in zip(size, sure, strict=True)),
    )
    edges = found.edges[:-1][full], found.edges[1:][full]
    counts.bars(edges[0] + 0.004, edges[1] - 0.004, size, "a")
    return section(
        "calibration",
        "Calibration",
        "Of all answers the model is 80\u00a0% sure of, about 80\u00a0% should be right. A dot is a bin of test rows "
        "of similar confidence; it should lie on its grey bar, which is what chance explains.",
        pair(chart.html(), counts.html()),
        paragraph(_told(verdict)),
        pit(facts),
    )


def _told(verdict: Verdict) -> str:
    """What the verdict says of the confidence."""
    wrong = next((f for f in verdict.findings if f.code in ("overconfident", "underconfident")), None)
    if wrong is None:
        return "The answers are right as often as chance explains: the stated probabilities can be taken at their word."
    return f"The model is {wrong.code}: the stated probabilities should not be taken at their word."


def _least(facts: ReportData) -> float:
    """The least confidence that an axis must show, a round number below 1/classes."""
    return float(np.floor(10 / len(facts.classes or "ab")) / 10)


def _answers(facts: ReportData) -> Chart:
    """Wrong answers should be less sure than right ones."""
    p = average(facts.predictions)
    sure, right = p.max(axis=1), p.argmax(axis=1) == facts.y
    edges = np.linspace(_least(facts), 1, 11)
    step = edges[1] - edges[0]
    share = [np.histogram(np.clip(sure[of], edges[0], 1), edges)[0] / max(of.sum(), 1) for of in (right, ~right)]
    chart = Chart(
        "Confidence of right and of wrong answers",
        Axis.share("Confidence in the answer", float(edges[0])),
        Axis.share("Share of these answers", 0.0, 1.08 * float(max(s.max() for s in share))),
        f"{several(int(right.sum()), 'right answer')}, {int((~right).sum())} wrong.",
    )
    middle = edges[:-1] + step / 2
    chart.bars(edges[:-1] + 0.08 * step, middle, share[0], "a", f"right ({count(int(right.sum()))})")
    chart.bars(middle, edges[1:] - 0.08 * step, share[1], "b", f"wrong ({count(int((~right).sum()))})")
    return chart


def pit(facts: ReportData) -> Markup:
    p, names = average(facts.predictions), facts.classes or ()
    share = np.bincount(facts.y, minlength=len(names)) / len(facts.y)
    stated, ranges = p.mean(axis=0), np.array([chance_of(p[:, k], CHANCE) for k in range(len(names))])
    off = np.abs(share - stated) / np.maximum(ranges[:, 1] - ranges[:, 0], 1e-12)
    shown = np.sort(np.argsort(-off, kind="stable")[:CALIBRATED])
    at = np.arange(len(shown))[::-1]
    chart = Chart(
        "Predicted and observed share of each class",
        Axis.share("Share of test rows", 0.0, min(1.0, 1.08 * float(max(share.max(), ranges.max())))),
        Axis("Class", -0.7, len(shown) - 0.3, at, [short(names[k], NAME) for k in shown]),
        "A range by chance and the observed share for each class.",
        height=max(200, 110 + 26 * len(shown)),
    )
    chart.whiskers(at, ranges[shown, 0], ranges[shown, 1], "soft", "predicted, with what chance explains", across=True)
    chart.points(share[shown], at, "a", "observed", size=4.5)
    rows = [
        (
            names[k],
            percent(stated[k]),
            percent(share[k]),
            percents(*ranges[k]),
            against(share[k], ranges[k], "too often", "too seldom"),
        )
        for k in shown
    ]
    head = ("Class", "Predicted", "Observed", "By chance", "")
    few = "" if len(shown) == len(names) else f" The {len(shown)} classes that are furthest off are shown."
    return part(
        "pit",
        "Calibration of each class",
        "The mean probability given to a class should match its share of the test rows. A dot off its grey bar marks a "
        f"class that is predicted too often or too seldom.{few}",
        pair(chart.html(), table(head, rows, "Each class against the rest", text=(0, 4))),
    )


def predictions(facts: ReportData) -> Markup:
    p = average(facts.predictions)
    said, sure = p.argmax(axis=1), p.max(axis=1)
    right = said == facts.y
    order = np.argsort(sure, kind="stable")
    rows = order[spread(len(order), ROWS)]
    at = np.arange(1, len(rows) + 1)
    own = np.asarray(facts.predictions.proba)[:, rows, said[rows]]
    low, high = np.quantile(own, [0.05, 0.95], axis=0)
    chart = Chart(
        "Test rows sorted by confidence",
        Axis.whole("Test rows, from the least sure to the surest", 0.5, len(rows) + 0.5),
        Axis.share("Probability of the predicted class"),
        f"{int(right[rows].sum())} of {len(rows)} rows shown are right.",
    )
    chart.band(at, low, high, "a pale", "90 % of draws")
    chart.points(at[right[rows]], sure[rows][right[rows]], "a", "right", size=2.6)
    chart.points(at[~right[rows]], sure[rows][~right[rows]], "b", "wrong", size=3.6, cross=True)
    kept = np.arange(len(order), 0, -1)
    accuracy = np.cumsum(right[order[::-1]])[::-1] / kept
    thin = spread(len(order), 2 * ROWS)
    aside = Chart(
        "Accuracy when the least sure rows are set aside",
        Axis.share("Share of rows set aside"),
        Axis.share("Accuracy of the rest", float(np.floor(10 * accuracy.min()) / 10)),
        f"{percent(accuracy[0])} with all rows, {percent(accuracy[len(order) // 2])} with the surer half.",
    )
    aside.line(1 - kept[thin] / len(order), accuracy[thin], "a").rule(y=float(accuracy[0]), name="all rows")
    return section(
        "predictions",
        "Predictions",
        "The probability of each row’s predicted class; the band is how far draws of the posterior differ on it. "
        f"Crosses should gather on the left, and the curve on the right should rise.{drawn(rows, sure)}",
        pair(chart.html(), aside.html()),
        uncertainty(facts, _answers(facts)),
    )
