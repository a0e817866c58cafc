"""Sections of any task: data, model and provenance, kinds of uncertainty, and rows unlike the training data."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from langevin.diagnostics.uncertainty import Split, entropies, variances
from langevin.report.data import ReportData
from langevin.report.markup import definitions, listed, pair, paragraph, part, section, table, titled
from langevin.report.numbers import count, number, percent, several, short
from langevin.report.plot import Axis, Chart, bins, spread
from langevin.report.scores import average

TARGET = 22  # letters of its name on an axis
NUMBERS = 20_000_000  # probabilities split at a time, for the sake of memory: of more, draws are thinned
ROWS = 150  # drawn of the test rows


def data(facts: ReportData) -> Markup:
    parts = [pair(definitions(facts.data, "Data"), definitions(facts.model, "Model"))]
    if facts.notes:
        parts.append(titled("What was done to the data", listed(facts.notes)))
    if facts.provenance:
        parts.append(titled("What is needed to get the same figures again", definitions(facts.provenance)))
    if facts.references:
        parts.append(titled("Please cite", listed(facts.references, "cite")))
    return section("data", "Data, model and provenance", "What was learnt from, and what was fitted to it.", *parts)


def uncertainty(facts: ReportData, *more: Chart) -> Markup:
    """Two parts of the uncertainty, and further charts."""
    regression = facts.task == "regression"
    if regression:
        split, key = variances(facts.predictions.mean, facts.predictions.std), facts.predictions.mean.mean(axis=0)
        rows_label, whole = "Test rows, from the lowest prediction to the highest", "variance"
        noise, about = "noise in the data (aleatoric)", "Noise in the data (aleatoric) stays however much is learnt."
    else:
        proba = np.asarray(facts.predictions.proba)
        draws = spread(len(proba), max(64, NUMBERS // proba[0].size))
        split, key = entropies(proba[draws]), average(facts.predictions).max(axis=1)
        rows_label, whole = "Test rows, from the least sure to the surest", "entropy"
        noise, about = (
            "classes overlap (aleatoric)",
            "Classes that overlap (aleatoric) stay hard however much is learnt.",
        )
    order = np.argsort(key, kind="stable")
    rows = order[spread(len(order), ROWS)]
    aleatoric, epistemic = (np.sqrt(v[rows]) if regression else v[rows] for v in (split.aleatoric, split.epistemic))
    at = np.arange(1, len(rows) + 1)
    parts = Chart(
        "Two parts of the uncertainty",
        Axis.whole(rows_label, 0.5, len(rows) + 0.5),
        Axis.over(
            f"Std. deviation ({short(facts.target, TARGET)})" if regression else "Entropy (nats)",
            aleatoric,
            epistemic,
            zero=True,
        ),
    )
    parts.points(at, aleatoric, "a", noise, size=2.8)
    parts.points(at, epistemic, "b", "not knowing the model (epistemic)", size=2.8)
    overall, hist = _epistemic_share(split, whole)
    return part(
        "uncertainty",
        "Where the uncertainty comes from",
        Markup(
            "{} The epistemic part is disagreement between draws: more data like these rows would shrink it. "
            "It makes up <strong>{}</strong> of the {}."
        ).format(about, percent(overall), whole),
        pair(parts.html(), hist.html()),
        *([pair(*(chart.html() for chart in more))] if more else []),
    )


def _epistemic_share(split: Split, whole: str) -> tuple[float, Chart]:
    share = np.divide(split.epistemic, split.total, out=np.zeros_like(split.total), where=split.total > 0)
    total = split.total.sum()
    overall = float(split.epistemic.sum() / total) if total > 0 else 0.0
    edges = bins(share, about=20)
    size = np.histogram(share, edges)[0] / len(share)
    chart = Chart(
        f"Epistemic share of the {whole}, row by row",
        Axis.share(f"Epistemic share of the {whole}", float(edges[0]), float(edges[-1])),
        Axis.share("Share of test rows", 0.0, 1.08 * float(size.max())),
        f"Overall {percent(overall)}.",
    )
    return overall, chart.bars(edges[:-1], edges[1:], size, "b", "test rows").rule(
        x=overall, name=f"overall: {percent(overall)}"
    )


def out_of_distribution(facts: ReportData) -> Markup:
    title = "Rows unlike the training data"
    known, shuffled = (np.asarray(v, float)[np.isfinite(v)] for v in (facts.known, facts.shuffled))
    if not known.size or not shuffled.size:
        return section("ood", title, "Too few rows were held out of the training data to judge this.")
    reach = float(np.quantile(np.concatenate([known, shuffled]), 0.98))
    reach = max(reach, 1.1 * facts.threshold) if np.isfinite(facts.threshold) else reach
    edges = bins(np.minimum(known, reach), np.minimum(shuffled, reach), [0.0], about=20)
    step = edges[1] - edges[0]
    sizes = [np.histogram(np.minimum(v, edges[-1]), edges)[0] / v.size for v in (known, shuffled)]
    above = [float(np.mean(v > facts.threshold)) if np.isfinite(facts.threshold) else np.nan for v in (known, shuffled)]
    chart = Chart(
        "Epistemic uncertainty of known and of made-up rows",
        Axis("Epistemic uncertainty", float(edges[0]), float(edges[-1])),
        Axis.share("Share of rows", 0.0, 1.08 * float(max(s.max() for s in sizes))),
        f"{percent(above[0])} of the known rows and {percent(above[1])} of the made-up rows lie above the threshold.",
    )
    middle = (edges[:-1] + edges[1:]) / 2
    chart.bars(edges[:-1] + 0.06 * step, middle, sizes[0], "a", "held-out rows")
    chart.bars(middle, edges[1:] - 0.06 * step, sizes[1], "b", "made-up rows")
    chart.rule(x=facts.threshold, name="threshold")
    rows = [
        ("held-out rows", count(known.size), number(float(np.median(known))), percent(above[0])),
        ("made-up rows", count(shuffled.size), number(float(np.median(shuffled))), percent(above[1])),
    ]
    head = ("", "Rows", "Median", "Above threshold")
    beyond = int(sum((v > edges[-1]).sum() for v in (known, shuffled)))
    far = (
        f"{several(beyond, 'row')} further to the right {'is' if beyond == 1 else 'are'} counted in the last bar."
        if beyond
        else ""
    )
    told = f"The threshold is {number(facts.threshold)}. A new row above it counts as unlike the training data. {far}"
    return section(
        "ood",
        title,
        "Made-up rows draw each feature apart from the others, so that they look right one by one and wrong together. "
        "Out-of-distribution rows are detected where many of these, and few held-out rows, lie above the threshold.",
        pair(chart.html(), table(head, rows, "Share above the threshold") + paragraph(told)),
    )
