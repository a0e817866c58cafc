"""The numbers a report quotes: scores of predictions, shares that chance alone explains, worst R̂ and least ESS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import binom, norm, rankdata

from langevin.diagnostics import calibration as cal
from langevin.diagnostics.convergence import Diagnosis
from langevin.report.data import Predictions, ReportData

PAIRS = 1e8  # CRPS takes draws² · rows evaluations: draws are thinned above this
COVERAGE, BALANCED = "90 % coverage", "Balanced accuracy"
SHARES = (COVERAGE, "Accuracy", BALANCED)  # scores that are written in per cent
BETTER = {"RMSE": -1, "R²": 1, "NLL": -1, "CRPS": -1, COVERAGE: 0}
BETTER |= {"Accuracy": 1, BALANCED: 1, "AUC": 1, "Brier": -1, "ECE": -1}
"""Which way a score is better: −1 lower, 1 higher, 0 nearer to what was stated."""


def scores(facts: ReportData, said: Predictions) -> dict[str, float]:
    """Scores of the test rows by name, in the order they are shown."""
    y = facts.y
    if facts.task == "regression":
        most = int(np.clip(np.sqrt(PAIRS / max(len(y), 1)), 32, 256))
        law = said.mixture()
        return {
            "RMSE": cal.rmse(y, said.mean),
            "R²": r_squared(y, said.mean.mean(axis=0)),
            "NLL": law.nll(y),
            "CRPS": law.crps(y, max_draws=most),
            COVERAGE: float(np.mean(centred(facts, said) <= 0.9)),
        }
    p = average(said)
    return {
        "Accuracy": cal.accuracy(y, p),
        BALANCED: float(np.nanmean(recall(facts, said))) if len(y) else float("nan"),
        "AUC": auc(y, p),
        "NLL": cal.nll_categorical(y, p),
        "Brier": cal.brier(y, p),
        "ECE": cal.ece(y, p),
    }


def r_squared(y: np.ndarray, mean: np.ndarray) -> float:
    """1 − residual ÷ total sum of squares; NaN where the values are all equal."""
    total = float(np.sum((y - np.mean(y)) ** 2)) if len(y) else 0.0
    return 1 - float(np.sum((y - mean) ** 2)) / total if total > 0 else float("nan")


def auc(y: np.ndarray, proba: np.ndarray) -> float:
    """Area under the ROC curve, one class against the rest, averaged over classes that have rows in and out of them.

    The probability that a row of the class is given a higher probability of it than a row of another; ties count half.
    """
    found = []
    for k in range(proba.shape[1]):
        inside = y == k
        n, m = int(inside.sum()), int((~inside).sum())
        if n and m:
            ranks = rankdata(proba[:, k])
            found.append((ranks[inside].sum() - n * (n + 1) / 2) / (n * m))
    return float(np.mean(found)) if found else float("nan")


def average(said: Predictions) -> np.ndarray:
    """Probabilities averaged over draws, (n, class)."""
    return np.asarray(said.proba, float).mean(axis=0)


def centred(facts: ReportData, said: Predictions) -> np.ndarray:
    """The probability of the smallest central interval that holds each observed value, |2 PIT − 1|.

    A value lies inside the central interval of probability p when this is at most p: coverage at every level from one
    pass over the draws.
    """
    return np.abs(2 * said.mixture().pit(facts.y) - 1)


def row_nll(facts: ReportData, said: Predictions) -> np.ndarray:
    """Negative log score of each test row; finite, also where a label was held impossible."""
    if facts.task == "regression":
        return said.mixture().nll(facts.y, each=True)
    p = average(said)[np.arange(len(facts.y)), facts.y]
    return -np.log(np.maximum(p, np.finfo(float).tiny))


class Gap(NamedTuple):
    """Mean of the posterior's NLL minus another's over the same rows, and its standard error."""

    mean: float
    stderr: float


def gap(facts: ReportData, other: Predictions | None) -> Gap | None:
    """How much worse (above 0) or better the posterior predicts the test rows than others do."""
    if other is None:
        return None
    d = row_nll(facts, facts.predictions) - row_nll(facts, other)
    stderr = float(d.std(ddof=1) / np.sqrt(len(d))) if len(d) > 1 else float("nan")
    return Gap(float(d.mean()), stderr)


def skill(facts: ReportData, other: Predictions) -> float:
    """1 − score/other's score, of CRPS or of Brier's: 1 is perfect, 0 no better, below 0 worse."""
    name = "CRPS" if facts.task == "regression" else "Brier"
    theirs = scores(facts, other)[name]
    return 1 - scores(facts, facts.predictions)[name] / theirs if theirs > 0 else float("nan")


class Compared(NamedTuple):
    """A baseline: its scores, how the posterior's NLL differs from its, and the posterior's skill over it."""

    name: str
    scores: dict[str, float]
    gap: Gap
    skill: float


def compare_baselines(facts: ReportData) -> list[Compared]:
    """Every baseline beside the posterior, on the same rows."""
    every = []
    for name, other in facts.baselines.items():
        found = gap(facts, other)
        assert found is not None
        every.append(Compared(name, scores(facts, other), found, skill(facts, other)))
    return every


def recall(facts: ReportData, said: Predictions) -> np.ndarray:
    """The share of each class's test rows that are answered rightly; NaN for a class without rows."""
    right = average(said).argmax(axis=1) == facts.y
    rows = np.bincount(facts.y, minlength=len(facts.classes or ()))
    with np.errstate(invalid="ignore"):
        return np.bincount(facts.y, weights=right, minlength=len(rows)) / rows


def chance(n: int, p: float, level: float = 0.95) -> tuple[float, float]:
    """Shares of n rows that chance alone gives in so many of all cases when the true one is p."""
    low, high = binom.interval(level, n, p)
    return float(low) / n, float(high) / n


def chance_of(p: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """The same for events of unequal probabilities p; by the normal law, cut to [0, 1]."""
    p = np.asarray(p, float)
    reach = norm.ppf((1 + level) / 2) * np.sqrt(np.sum(p * (1 - p))) / len(p)
    return float(max(p.mean() - reach, 0.0)), float(min(p.mean() + reach, 1.0))


def against(share: float, by_chance: tuple[float, float], below: str, above: str) -> str:
    """A share in words: below or above what chance explains, or as stated."""
    low, high = by_chance
    return below if share < low - 1e-9 else above if share > high + 1e-9 else "as stated"


class Mixing(NamedTuple):
    """Worst R̂ and least ESS; NaN where none is known. `unknown` of `entries` have no R̂."""

    rhat: float
    bulk: float
    tail: float
    entries: int
    unknown: int


def mixing(diagnosis: Diagnosis, prefix: str = "predictions") -> Mixing:
    """Over all quantities whose name starts with `prefix`."""
    join = lambda of: np.concatenate(
        [np.ravel(v) for name, v in of.items() if name.startswith(prefix)] or [np.zeros(0)]
    )
    rhat, bulk, tail = (np.asarray(join(of), float) for of in (diagnosis.rhat, diagnosis.ess_bulk, diagnosis.ess_tail))
    known = lambda v, of: float(of(v[~np.isnan(v)])) if (~np.isnan(v)).any() else float("nan")
    return Mixing(known(rhat, np.max), known(bulk, np.min), known(tail, np.min), rhat.size, int(np.isnan(rhat).sum()))


def chains_and_draws(facts: ReportData) -> tuple[int, int]:
    """Chains, those that diverged among them, and draws of each."""
    shapes = [np.shape(x)[:2] for x in facts.chains.values()]
    n, draws = shapes[0] if shapes else (0, len(facts.predictions))
    return max(n, 1 + max(facts.diagnosis.divergent, default=-1)), draws
