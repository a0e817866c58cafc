"""May this posterior be used? A few rules, each with its limit, and what to do where one is broken.

A rule returns remarks. What the diagnosis has already worded is not said again: such a remark only raises the level.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from langevin.diagnostics.convergence import RHAT
from langevin.report.facts import Facts
from langevin.report.markup import number, percent, percents, rhat_words, several
from langevin.report.scores import average, centred, chains_and_draws, chance, chance_of, gap, mixing

ERROR, ERROR_STOP = 0.1, 0.5  # Monte Carlo error of a predicted mean, over its standard deviation, that 1 row in 20 has
RHAT_STOP = 1.1  # chains that disagree this much describe different posteriors
DIVERGED = 0.5  # share of chains from which the rest can no longer be called typical
CHANCE = 0.999  # a calibration outside this range is not an accident: 1 report in 1,000 warns wrongly
STDERRS = 2.0  # standard errors by which the start ensemble must be better
FEW_ROWS = 30  # below this even a bad calibration cannot be seen

Level = Literal["good", "care", "stop"]
ORDER: tuple[Level, ...] = ("good", "care", "stop")
HEADLINES: dict[Level, str] = {
    "good": "You can use this posterior.",
    "care": "Usable, with care.",
    "stop": "Do not use this posterior yet.",
}

OVERSURE = "Check that test and training rows are alike; then try more chains, or a stronger prior."


class Remark(NamedTuple):
    """level, what to do, and words by which the diagnosis would already have said so."""

    level: Level
    sentence: str
    already: tuple[str, ...] = ()


class Verdict(NamedTuple):
    """level "good", "care" or "stop", a headline, and one sentence for each thing that is wrong."""

    level: Level
    headline: str
    sentences: tuple[str, ...]


def judge(facts: Facts) -> Verdict:
    """Every rule is asked; the gravest remark sets the level."""
    warnings = facts.diagnosis.warnings
    if small_error(facts):  # chains in modes of their own never agree to the last digit, and need not
        warnings = tuple(w for w in warnings if not w.startswith(("R-hat of", "Bulk ESS of")))
    remarks = [remark for rule in RULES for remark in rule(facts)]
    said = lambda remark: bool(remark.already) and any(all(w in text for w in remark.already) for text in warnings)
    own = sorted((r for r in remarks if not said(r)), key=lambda r: -ORDER.index(r.level))
    levels = [ORDER.index(r.level) for r in remarks] + [ORDER.index("care") for _ in warnings]
    level = ORDER[max(levels, default=0)]
    grave = tuple(r.sentence for r in own if r.level == "stop")
    light = tuple(r.sentence for r in own if r.level != "stop")
    return Verdict(level, HEADLINES[level], grave + warnings + light)


def error(facts: Facts) -> float:
    """The Monte Carlo error that only 1 row in 20 exceeds; NaN where it is not known."""
    known = facts.error is not None and len(facts.error) and np.isfinite(facts.error).all()
    return float(np.quantile(facts.error, 0.95)) if known else float("nan")


def small_error(facts: Facts) -> bool:
    return error(facts) < ERROR


def disagreement(facts: Facts) -> list[Remark]:
    """The Monte Carlo error, or where it is not known R̂ of the predictions; what is unknown does not count as good."""
    if not np.isnan(found := error(facts)):
        words = (
            f"Predicted means are known to {percent(found)} of their standard deviation only, so much do the chains "
        )
        words += "differ: take more chains, or draw more."
        return [Remark("stop" if found > ERROR_STOP else "care", words)] if found >= ERROR else []
    m = mixing(facts.diagnosis)
    if np.isnan(m.rhat):
        words = (
            "R-hat of the predictions is not known, so nothing shows that the chains agree: draw more, from 4 chains."
        )
        return [Remark("stop", words, ("too few to judge",))]
    remarks = []
    if m.rhat > RHAT:
        words = f"R-hat of the predictions is {rhat_words(m.rhat)}: the chains disagree; run or warm up longer."
        remarks.append(Remark("stop" if m.rhat > RHAT_STOP else "care", words, ("R-hat of", "predictions", "above")))
    if m.unknown:
        words = f"R-hat is not known for {m.unknown} of {m.entries} predictions, which never change or are not finite: "
        remarks.append(Remark("care", words + "look at the chains below.", ("never moved",)))
    return remarks


def divergence(facts: Facts) -> list[Remark]:
    """Half of the chains or more."""
    lost, (chains, _) = len(facts.diagnosis.divergent), chains_and_draws(facts)
    if not lost or lost < DIVERGED * chains:
        return []
    words = f"{lost} of {several(chains, 'chain')} diverged, so those left may not be typical: lower the step size."
    return [Remark("stop", words, ("chains diverged",))]


def wrong_law(facts: Facts) -> list[Remark]:
    """A kernel that converges to something else, as it says itself."""
    if facts.law_kind != "wrong":
        return []
    law = facts.law.strip().rstrip(".") or "which one is not stated"
    words = f"The kernel does not converge to the posterior but to another law ({law}): "
    return [Remark("stop", words + "choose a kernel whose law is exact, or its corrected variant.")]


def coverage(facts: Facts) -> list[Remark]:
    """90 % intervals of a regression."""
    if facts.task != "regression":
        return []
    found, (low, high) = float(np.mean(centred(facts, facts.said) <= 0.9)), chance(len(facts.y), 0.9, CHANCE)
    told = f"The 90 % intervals hold {percent(found)} of the test rows, where chance explains {percents(low, high)}: "
    if found < low:
        return [Remark("care", told + f"they are too narrow. {OVERSURE}")]
    if found > high:
        advice = "they are too wide, which is safe but says little. Warm up longer, or check the noise model."
        return [Remark("care", told + advice)]
    return []


def confidence(facts: Facts) -> list[Remark]:
    """How sure a classification is, and how often it is right."""
    if facts.task != "classification":
        return []
    p = average(facts.said)
    sure, found = p.max(axis=1), float(np.mean(p.argmax(axis=1) == facts.y))
    low, high = chance_of(sure, CHANCE)
    told = f"The model is {percent(float(sure.mean()))} sure of its answers on average, and right in {percent(found)} "
    told += f"where chance explains {percents(low, high)}: "
    if found < low:
        return [Remark("care", told + f"it is overconfident. {OVERSURE}")]
    if found > high:
        return [Remark("care", told + "it is less sure than it could be. Warm up longer, or try a weaker prior.")]
    return []


def start(facts: Facts) -> list[Remark]:
    """Sampling should not make predictions worse than the deep ensemble it started from."""
    found = gap(facts)
    if found is None or not found.mean > STDERRS * found.stderr:
        return []
    words = f"NLL is worse than that of the deep ensemble it started from, by {number(found.mean)} "
    words += f"(standard error {number(found.stderr, 2)}): lower the step size, or use the ensemble."
    return [Remark("care", words)]


def few_rows(facts: Facts) -> list[Remark]:
    """Too few to see a bad calibration."""
    n = len(facts.y)
    words = f"There are {several(n, 'test row')}, too few rows to judge calibration: hold out {FEW_ROWS} or more."
    return [Remark("care", words)] if n < FEW_ROWS else []


def stopped(facts: Facts) -> list[Remark]:
    """Fewer draws than were asked for."""
    _, draws = chains_and_draws(facts)
    if facts.draws_wanted <= draws:
        return []
    words = f"Sampling was stopped early, after {draws:,} of {facts.draws_wanted:,} draws of each chain: "
    return [Remark("care", words + "resume it for the rest.")]


RULES: tuple[Callable[[Facts], list[Remark]], ...] = (
    wrong_law,
    disagreement,
    divergence,
    coverage,
    confidence,
    start,
    few_rows,
    stopped,
)
