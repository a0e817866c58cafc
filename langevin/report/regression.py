"""Sections about the predictions of a regression: are the intervals right, how wide are they, and why."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from langevin.diagnostics import calibration as cal
from langevin.report.data import ReportData
from langevin.report.markup import pair, paragraph, part, section, table
from langevin.report.numbers import count, number, percent, percents, several, short
from langevin.report.plot import Axis, Chart, drawn, spread
from langevin.report.scores import against, centred, chance
from langevin.report.sections import uncertainty
from langevin.report.verdict import CHANCE, Verdict

LEVELS = (0.5, 0.8, 0.9, 0.95)
TARGET = 22  # letters of its name on an axis
BY_CHANCE = f"by chance ({percent(CHANCE)})"  # the range within which the verdict calls nothing wrong
ROWS = 150  # drawn of the test rows
WIDE_ROWS, WIDE_DRAWS = 400, 256  # quantiles of mixtures are found by bisection: of so many at most


def calibration(facts: ReportData, verdict: Verdict) -> Markup:
    n, share = len(facts.y), np.linspace(0, 1, 41)
    found = cal.calibration_curve(centred(facts, facts.predictions), share)
    low, high = np.transpose([chance(n, p, CHANCE) for p in share])
    chart = Chart(
        "Stated and observed probability",
        Axis.share("Stated probability of the interval"),
        Axis.share("Share of test rows inside"),
        f"The 50 % intervals hold {percent(found[20])} of the rows, the 90 % intervals {percent(found[36])}.",
    )
    chart.band(share, low, high, "soft", BY_CHANCE).diagonal("perfect").line(share, found, "a", "this posterior")
    chart.label(0.04, 0.9, "intervals too wide").label(0.98, 0.06, "intervals too narrow", "end")
    most = 1.1 * max(float(np.abs(v - share).max()) for v in (low, high, found))
    closer = Chart(
        "The same, less what was stated",
        chart.x,
        Axis.share("Share inside minus stated probability", -most, most),
        f"At most {percent(float(np.abs(found - share).max()))} off.",
    )
    closer.band(share, low - share, high - share, "soft", BY_CHANCE).rule(y=0.0, name="perfect")
    closer.line(share, found - share, "a", "this posterior")
    wrong = next((f for f in verdict.findings if f.code in ("intervals_narrow", "intervals_wide")), None)
    told = (
        "The 90\u00a0% intervals hold as many rows as chance explains: the stated probabilities can be taken at their "
        "word."
        if wrong is None
        else f"The intervals are too {wrong.code.removeprefix('intervals_')}: the stated probabilities should not be "
        "taken at their word."
    )
    return section(
        "calibration",
        "Calibration",
        "An interval stated to hold 80\u00a0% of all values should hold about 80\u00a0% of the test rows. "
        "The curve should follow the broken line and stay inside the grey band.",
        pair(chart.html(), closer.html()),
        paragraph(told),
        coverage(facts),
        pit(facts),
    )


def coverage(facts: ReportData) -> Markup:
    n, inside = len(facts.y), centred(facts, facts.predictions)
    low, high = bounds(facts, spread(n, WIDE_ROWS), LEVELS)
    width = (high - low).mean(axis=1)
    shares, ranges = [float(np.mean(inside <= p)) for p in LEVELS], [chance(n, p, CHANCE) for p in LEVELS]
    at = np.arange(len(LEVELS))
    across = Axis("Stated probability", -0.6, len(LEVELS) - 0.4, at, [f"{100 * p:.0f}\u00a0%" for p in LEVELS])
    lowest = min(0.43, *shares, *(r[0] for r in ranges))
    chart = Chart(
        "Share of test rows inside their interval",
        across,
        Axis.share("Share inside", np.floor(lowest * 10 - 0.3) / 10),
        "; ".join(f"{100 * p:.0f} % intervals hold {percent(s)}" for p, s in zip(LEVELS, shares, strict=True)),
    )
    chart.bars(at - 0.3, at + 0.3, [r[1] for r in ranges], "soft", BY_CHANCE, base=[r[0] for r in ranges])
    chart.points(at, shares, "a", "this posterior", size=5.5)
    rows = [
        (f"{100 * p:.0f}\u00a0%", percent(s), percents(*r), number(w), against(s, r, "too narrow", "too wide"))
        for p, s, r, w in zip(LEVELS, shares, ranges, width, strict=True)
    ]
    head = ("Stated", "Observed", "By chance", "Mean width", "")
    return part(
        "coverage",
        "Coverage of intervals",
        f"How many of the {count(n)} test rows lie inside their central interval. With a right posterior the observed "
        f"share leaves the range by chance in {several(round(1000 * (1 - CHANCE)), 'report')} of 1,000.",
        pair(
            chart.html(),
            table(head, rows, f"Coverage, and width in units of {short(facts.target, TARGET)}", text=(0, 4)),
        ),
    )


def bounds(facts: ReportData, rows: np.ndarray, levels) -> tuple[np.ndarray, np.ndarray]:
    """Central intervals of some test rows, (level, row)."""
    law = facts.predictions.mixture()
    return law.take(spread(len(law), WIDE_DRAWS), rows).intervals(levels)


def pit(facts: ReportData) -> Markup:
    n, found = len(facts.y), facts.predictions.mixture().pit(facts.y)
    many = 10 if n < 400 else 20
    edges = np.linspace(0, 1, many + 1)
    share = np.histogram(found, edges)[0] / n
    low, high = chance(n, 1 / many, CHANCE)
    top = float(max(share.max(), high)) * 1.08
    chart = Chart(
        "Where observed values fall in their predicted distribution",
        Axis.share("Predicted probability of a smaller value (PIT)"),
        Axis.share("Share of test rows", 0.0, top),
        f"Bars of {percent(1 / many, 0)} each are perfect; these are {percent(share.min())} to {percent(share.max())}.",
    )
    chart.band([0, 1], [low, low], [high, high], "soft", BY_CHANCE)
    chart.bars(edges[:-1] + 0.004, edges[1:] - 0.004, share, "a light", "this posterior")
    chart.rule(y=1 / many, name="perfect").line([0, 1], [low, low], "edge soft").line([0, 1], [high, high], "edge soft")
    shapes = [
        ("Flat, inside the band", "the predicted distributions are right"),
        ("U: high at both ends", "intervals are too narrow; more values than stated fall outside"),
        ("Hump: high in the middle", "intervals are too wide"),
        ("Slope up", "predictions are too low; observed values are larger"),
        ("Slope down", "predictions are too high; observed values are smaller"),
    ]
    return part(
        "pit",
        "PIT histogram",
        "The probability integral transform (PIT) is the place of an observed value in its predicted distribution: "
        "0 far below, 1 far above. All bars should be about equally high.",
        pair(chart.html(), table(("Shape", "What it means"), shapes, "How to read it", text=(0, 1))),
    )


def predictions(facts: ReportData) -> Markup:
    mean, y = facts.predictions.mean.mean(axis=0), facts.y
    order = np.argsort(mean, kind="stable")
    rows = order[spread(len(order), ROWS)]
    low, high = bounds(facts, rows, (0.5, 0.9))
    at = np.arange(1, len(rows) + 1)
    target = short(facts.target, TARGET)
    bands = Chart(
        "Test rows sorted by predicted mean",
        Axis.whole("Test rows, from the lowest prediction to the highest", 0.5, len(rows) + 0.5),
        Axis.over(target, low, high, y[rows]),
        f"Intervals of {len(rows)} test rows with what was observed.",
    )
    bands.band(at, low[1], high[1], "a pale", "90 % interval").band(at, low[0], high[0], "a", "50 % interval")
    bands.line(at, mean[rows], "a", "mean").points(at, y[rows], "b", "observed", size=2.6)
    some = order[spread(len(order), 2 * ROWS)]
    both = Axis.over(f"Predicted mean ({target})", mean[some], y[some])
    scatter = Chart("Observed against predicted", both, Axis(f"Observed ({target})", both.low, both.high))
    scatter.diagonal("equal").points(mean[some], y[some], "b", "test row", size=2.8)
    return section(
        "predictions",
        "Predictions",
        "Each test row has a predicted mean, an interval that should hold half of all values, and one that should hold "
        f"nine of ten. Dots are what was observed.{drawn(rows, y)}",
        pair(bands.html(), scatter.html()),
        uncertainty(facts),
    )
