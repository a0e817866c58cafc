"""Sections about the chains: have they mixed, how large are their energy errors, and what do they converge to?"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from markupsafe import Markup
from scipy.stats import rankdata

from langevin.report.data import ReportData
from langevin.report.markup import pair, paragraph, part, section, table
from langevin.report.numbers import count, number, rhat_words, several, short
from langevin.report.plot import Axis, Chart, bins, spread
from langevin.report.scores import mixing
from langevin.report.tiles import wanted

CHAINS, DRAWS = 8, 200  # drawn at most
COLOURS = 8
RANKS, IN_BAR = 20, 15  # bars of a rank plot at most, and draws that each should hold
NAME = 36  # letters of a name on an axis
FIGURE = re.compile(r"[-−]?[\d.,]*[×%–∞]?")  # rows of an audit hold figures as text

LAWS = {
    "exact": "Exact: the kernel keeps the posterior unchanged, so only the finite number of draws adds an error.",
    "order": "Biased by the step size: the kernel comes as close to the posterior as its step is small. "
    "To see the bias, halve the step size and compare.",
    "approximate": "Approximate: draws are independent, of a distribution that was fitted to the posterior.",
    "wrong": "Biased: at any step size the kernel converges to another distribution than the posterior.",
}


def fit(facts: ReportData) -> Markup:
    """In place of chains, for draws of a fitted distribution."""
    lead = "The draws are independent, so there are no chains to judge; each fit is one part of a mixture."
    return section("sampling", "Approximation", lead, audit(facts))


def sampling(facts: ReportData) -> Markup:
    if facts.approximate:
        return fit(facts)
    drawn = [_quantity(facts, name, np.asarray(x, float)) for name, x in facts.chains.items() if np.size(x)]
    n = max((len(x) for x in facts.chains.values()), default=0)
    some = f" {CHAINS} of {count(n)} chains are drawn; the table uses all." if n > CHAINS else ""
    lost = facts.diagnosis.divergent
    diverged = f" Diverged and left out: chain {', '.join(map(str, lost))}." if lost else ""
    if not drawn:
        lead = "No numbers were followed through sampling."
        return section("sampling", "Sampling", lead, _mixing_table(facts), energy(facts), audit(facts))
    return section(
        "sampling",
        "Sampling",
        "Traces of all chains should lie over one another, without drift. In a rank plot all draws are ranked "
        "together: a chain that agrees with the others has bars near its broken line. Chains are counted from 0, and "
        f"bars jump more than chance alone where draws follow one another closely.{some}{diverged}",
        *drawn,
        _mixing_table(facts),
        energy(facts),
        audit(facts),
    )


def _quantity(facts: ReportData, name: str, x: np.ndarray) -> Markup:
    good = [c for c in range(len(x)) if c not in facts.diagnosis.divergent and np.isfinite(x[c]).all()]
    if not good:
        return paragraph(f"No chain of {name} is left to draw.")
    shown = [good[i] for i in spread(len(good), CHAINS)]
    ranks = [_ranks(name, x, good, shown).html()] if len(good) > 1 else []
    return pair(_trace(name, x, shown).html(), *ranks)


def _trace(name: str, x: np.ndarray, shown: list[int]) -> Chart:
    draws = spread(x.shape[1], DRAWS)
    chart = Chart(
        f"Trace of {name}",
        Axis.whole("Draw", 0, max(x.shape[1], 2)),
        Axis.over(short(name, NAME), x[np.ix_(shown, draws)]),
        f"{several(len(shown), 'chain')} of {several(x.shape[1], 'draw')}.",
    )
    for i, c in enumerate(shown):
        chart.line(draws + 1, x[c, draws], f"thin c{i % COLOURS}", f"{c}" if i else f"chain {c}")
    return chart


def _ranks(name: str, x: np.ndarray, good: list[int], shown: list[int]) -> Chart:
    """A lane for each chain: a histogram of its ranks among all draws, and a line at what is expected."""
    ranks = rankdata(x[good]).reshape(len(good), -1) / (len(good) * x.shape[1])
    many = int(np.clip(x.shape[1] // IN_BAR, 5, RANKS))
    edges = np.linspace(0, 1, many + 1)
    share = {c: np.histogram(ranks[good.index(c)], edges)[0] * many / x.shape[1] for c in shown}
    top = max(2.0, *(float(s.max()) for s in share.values()))
    lanes = {c: len(shown) - 1 - i for i, c in enumerate(shown)}
    chart = Chart(
        f"Ranks of {name}",
        Axis.share("Rank among the draws of all chains, lowest to highest"),
        Axis("Chain", 0, len(shown), [lane + 0.4 / top for lane in lanes.values()], [str(c) for c in shown]),
        "; ".join(f"chain {c}: bars from {s.min():.1f} to {s.max():.1f} times the expected" for c, s in share.items()),
    )
    for i, c in enumerate(shown):
        lane, tall = lanes[c], 0.92 / top
        kind = f"c{i % COLOURS}"
        chart.bars(edges[:-1] + 0.004, edges[1:] - 0.004, lane + tall * share[c], kind, base=lane)
        chart.rule(y=lane + tall, name="" if i else "expected")
    return chart


def _mixing_table(facts: ReportData) -> Markup:
    diagnosis = facts.diagnosis
    if not diagnosis.rhat:
        return paragraph("R̂ and ESS are not known: there are too few chains or draws to judge.")
    rows = []
    for name in diagnosis.rhat:
        m = mixing(diagnosis._replace(rhat={name: diagnosis.rhat[name]}), name)
        bulk, tail = (_least(of.get(name)) for of in (diagnosis.ess_bulk, diagnosis.ess_tail))
        per_grad = diagnosis.ess_per_grad.get(name)
        rows.append(
            (name, rhat_words(m.rhat), _whole(bulk), _whole(tail), number(1000 * per_grad) if per_grad else "–")
        )
    head = ("Quantity", "Worst R̂", "Least bulk ESS", "Least tail ESS", "ESS per 1,000 gradients")
    agree, enough = wanted(facts)
    told = (
        "R̂ compares chains with one another; 1 is best. ESS is the number of independent draws that the chains are "
        "worth, for the centre (bulk) and for 5 % and 95 % quantiles (tail). "
        f"What the verdict asks of predictions: of R̂, {agree}; of bulk ESS, {enough}."
    )
    return table(head, rows, "Convergence") + paragraph(told)


def _least(values: Any) -> float:
    flat = np.ravel(np.asarray([] if values is None else values, float))
    flat = flat[~np.isnan(flat)]
    return float(flat.min()) if flat.size else float("nan")


def _whole(x: float) -> str:
    return count(round(x)) if np.isfinite(x) else number(x)


def energy(facts: ReportData) -> Markup:
    title = "Energy error"
    error = None if facts.energy_error is None else np.asarray(facts.energy_error, float)
    good = [] if error is None else [c for c in range(len(error)) if c not in facts.diagnosis.divergent]
    if error is None or not np.isfinite(error[good]).any():
        return part("energy", title, "This kernel has no energy error: it does not follow an energy along its path.")
    kept = error[good]
    finite = kept[np.isfinite(kept)]
    low, high = np.quantile(finite, [0.005, 0.995])
    edges = bins(np.clip(finite, low, high), about=30)
    share = np.histogram(np.clip(finite, low, high), edges)[0] / finite.size
    hist = Chart(
        "Energy error of all draws",
        Axis("Energy error", float(edges[0]), float(edges[-1])),
        Axis.share("Share of draws", 0.0, 1.08 * float(share.max())),
        f"Between {number(low)} and {number(high)} in 99 of 100 draws.",
    )
    hist.bars(edges[:-1], edges[1:], share, "a").rule(x=0.0, name="no error")
    with np.errstate(invalid="ignore"):
        square = np.array([np.mean(row[np.isfinite(row)] ** 2) if np.isfinite(row).any() else np.nan for row in kept])
    at = np.arange(len(good))
    places = spread(len(good), 10)
    bars = Chart(
        "Mean square of each chain",
        Axis("Chain", -0.6, len(good) - 0.4, places, [str(good[i]) for i in places]),
        Axis.over("Mean squared energy error", square, zero=True),
        f"From {number(np.nanmin(square))} to {number(np.nanmax(square))}.",
    )
    bars.bars(at - 0.3, at + 0.3, square, "a").rule(
        y=float(np.nanmean(square)), name=f"mean: {number(np.nanmean(square))}"
    )
    return part(
        "energy",
        title,
        "An exact path would keep its energy; the error shows how coarse the steps are. The histogram should be narrow "
        "around 0, and no chain should stand out: a lower step size makes both smaller.",
        pair(hist.html(), bars.html()),
    )


def audit(facts: ReportData) -> Markup:
    law = facts.law.strip()
    parts = [paragraph(f"It states: {law}.".replace("..", "."))] if law else []
    if facts.audit:
        head = list(dict.fromkeys(key for row in facts.audit for key in row))
        rows = [[_cell(row.get(key, "")) for key in head] for row in facts.audit]
        text = [i for i in range(len(head)) if not all(FIGURE.fullmatch(row[i]) for row in rows)]
        parts.append(table([key.replace("_", " ") for key in head], rows, "Audit of this kernel", text=text))
    if facts.audit_outcome:
        parts.append(Markup("<p><strong>Outcome:</strong> {}</p>").format(facts.audit_outcome))
    if not facts.audit and not facts.audit_outcome and not facts.approximate:
        parts.append(
            Markup("<p>This kernel was not audited. The command <code>langevin audit KERNEL</code> does so.</p>")
        )
    lead = LAWS.get(facts.law_kind, "What this kernel converges to is not stated.")
    return part("audit", "What the sampler converges to", lead, *parts)


def _cell(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return count(int(value))
    return number(float(value)) if isinstance(value, float | np.floating) else str(value)
