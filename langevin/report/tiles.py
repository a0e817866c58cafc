"""The figures below the verdict. A tile is marked by the findings of the verdict that speak of it, by nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from langevin.diagnostics.convergence import ESS, RHAT
from langevin.diagnostics.findings import Finding, Level, gravest
from langevin.report.data import ReportData
from langevin.report.numbers import SPACE, count, number, percent, percents, rhat_words, several
from langevin.report.scores import (
    BALANCED,
    COVERAGE,
    HALF,
    PR_AUC,
    SHARES,
    SHARPNESS,
    average,
    chains_and_draws,
    chance,
    compare_baselines,
    mixing,
)
from langevin.report.verdict import CHANCE, ERROR, GOOD, RHAT_STOP, Verdict, error, is_precise

OVER = {"trivial": "the trivial answer", "linear": "a linear model", "boosting": "boosting"}
SKILL, MC_ERROR, WORST, LEAST, CHAINS = "Skill", "Monte Carlo error", "Worst R̂", "Least ESS", "Chains"
KHAT, FITS = "Pareto k̂", "Fits"
ABOUT = {
    "NLL": "nats a row: how surprising the true values were; lower is better",
    "Brier": "squared distance of probabilities from the truth; 0 is best, 2 is worst",
    "ECE": "mean gap of confidence and share of right answers; 0 is best",
    "Accuracy": "share of right answers",
    BALANCED: "mean over classes of the share found",
    "AUC": "under the ROC curve; ½ is chance, 1 is best",
    "R²": "share of the variance explained",
}
SPEAKS: dict[str, tuple[str, ...]] = {
    SKILL: ("no_better", "simpler_is_better", "simpler_as_good"),
    "NLL": ("worse_than_start", "members_worse"),
    COVERAGE: ("intervals_narrow", "intervals_wide", "few_rows"),
    HALF: ("intervals_narrow", "intervals_wide"),
    "Accuracy": ("trivial_answers",),
    BALANCED: ("class_missed",),
    "ECE": ("overconfident", "underconfident", "few_rows"),
    MC_ERROR: ("mc_error",),
    KHAT: ("approximation",),
    FITS: ("diverged", "unequal_weights", "wrong_law"),
    WORST: ("rhat", "rhat_unknown", "too_few_draws"),
    LEAST: ("ess_bulk", "too_few_draws"),
    CHAINS: (
        *("diverged", "one_chain", "never_moved", "outlying_chain", "unequal_weights", "acceptance", "wrong_law"),
        *("weights_unmixed", "stopped_early", "sampling_goes_on"),
    ),
}
"""The codes of findings that speak of each tile; R̂ and ESS of other quantities than predictions speak of the chains."""


class Tile(NamedTuple):
    """A figure: its name, its value, what it means, and the level of what the verdict says of it."""

    name: str
    value: str
    about: str
    level: Level


def tiles(facts: ReportData, own: dict[str, float], verdict: Verdict) -> list[Tile]:
    """In the order they are shown."""
    every = [*_skill(facts, own), *_scores(facts, own), *_sampling(facts, verdict.findings)]
    return [
        Tile(name.replace(" %", SPACE + "%"), value, about, level_of(name, verdict.findings))
        for name, value, about in every
    ]


def level_of(name: str, findings: Iterable[Finding]) -> Level:
    """The gravest level of the findings that speak of a tile."""
    return gravest(f for f in findings if tile_of(f, name))


def tile_of(finding: Finding, name: str) -> bool:
    """Whether a finding speaks of a tile."""
    if finding.code in ("intervals_narrow", "intervals_wide"):
        return name in finding.names
    if finding.code in ("rhat", "ess_bulk") and not any(n.startswith("predictions") for n in finding.names):
        return name == CHAINS
    return finding.code in SPEAKS.get(name, ())


def _skill(facts: ReportData, own: dict[str, float]) -> list[tuple[str, str, str]]:
    """Over the simpler model that predicts best, and over the others."""
    found = sorted(compare_baselines(facts, own), key=lambda c: c.skill)
    if not found:
        return []
    (first, over), *others = [(percent(c.skill, 0), OVER[c.name]) for c in found]
    rest = "".join(f"; {value} over {name}" for value, name in others)
    return [(SKILL, first, f"over {over}{rest}, in {'CRPS' if facts.task == 'regression' else 'Brier'}")]


def _scores(facts: ReportData, own: dict[str, float]) -> list[tuple[str, str, str]]:
    unit, stated = "in units of the target", {COVERAGE: 0.9, HALF: 0.5}
    of_rarer = "of the rarer class" if len(facts.classes or ()) == 2 else "mean over classes"
    about = ABOUT | {
        "RMSE": f"of the predicted mean, {unit}",
        "CRPS": f"mean distance of the predicted distribution from the truth, {unit}; lower is better",
        SHARPNESS: f"mean predicted standard deviation, {unit}",
        PR_AUC: f"under the precision-recall curve, {of_rarer}; 1 is best",
    }
    if facts.task == "classification" and "trivial" in facts.baselines:
        common = float(np.mean(facts.y == average(facts.baselines["trivial"])[0].argmax())) if len(facts.y) else 0.0
        about["Accuracy"] = f"share of right answers; {percent(common)} by always giving the commonest"
    about |= {k: "chance explains " + percents(*chance(len(facts.y), p, CHANCE)) for k, p in stated.items()}
    form = lambda name, v: percent(v) if name in SHARES else number(v)
    return [(name, form(name, value), about[name]) for name, value in own.items()]


def _sampling(facts: ReportData, findings: tuple[Finding, ...]) -> list[tuple[str, str, str]]:
    m, found = mixing(facts.diagnosis), []
    bulk = count(round(m.bulk)) if m.bulk == m.bulk else number(m.bulk)
    if (known := error(facts)) == known:
        found.append((MC_ERROR, percent(known), f"of the predicted std., want below {percent(ERROR, 0)}"))
    if facts.approximate:
        many, draws = chains_and_draws(facts)
        khat = number(facts.pareto_k) if facts.pareto_k == facts.pareto_k else "not known"
        found.append((KHAT, khat, f"of the approximation, up to {GOOD:g} it stands for the posterior"))
        return [*found, (FITS, str(max(many, 1)), f"of {several(draws, 'draw')} each, one mixture together")]
    agree, enough = wanted(facts)
    found += [(WORST, rhat_words(m.rhat), f"of predictions, {agree}"), (LEAST, bulk, f"of predictions, {enough}")]
    chains, draws = chains_and_draws(facts)
    lost = len(facts.diagnosis.divergent)
    about = f"{lost} diverged and left out" if lost else "no chain diverged"
    apart = sorted({c for f in findings if f.code == "outlying_chain" for c in f.chains})
    if apart:
        about += f"; unlike the others: {', '.join(map(str, apart))}"
    return [*found, (CHAINS, str(max(chains, 1)), f"of {several(draws, 'draw')}; {about}")]


def wanted(facts: ReportData) -> tuple[str, str]:
    """What the verdict asks of R̂ and of ESS of the predictions."""
    if not is_precise(facts):
        return f"want below {RHAT}", f"want {ESS} a chain"
    small = f"while the Monte Carlo error is below {percent(ERROR, 0)}"
    return f"up to {RHAT_STOP} will do {small}", f"enough {small}"
