"""The numbers a report quotes: scores of predictions, shares that chance alone explains, worst R̂ and least ESS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import binom, norm, rankdata

from langevin.diagnostics import calibration as cal
from langevin.diagnostics.convergence import Diagnosis
from langevin.diagnostics.uncertainty import variances
from langevin.report.classes import pr_auc
from langevin.report.data import Predictions, ReportData

PR_AUC = "PR AUC"
PAIRS = 1e8  # CRPS takes draws² · rows evaluations: draws are thinned above this
COVERAGE, HALF, BALANCED, SHARPNESS = "90 % coverage", "50 % coverage", "Balanced accuracy", "Sharpness"
SHARES = (COVERAGE, HALF, "Accuracy", BALANCED)  # scores that are written in per cent
MEANINGS = {
    "RMSE": "root mean squared error of the predicted mean, in units of the target; 0 is best",
    "R²": "share of the variance of the target that the predicted mean explains; 1 is best, 0 is the mean of the rows",
    "NLL": "mean negative log of the probability (density) given to the true value, in nats: how surprising the truth "
    "was; lower is better",
    "CRPS": "mean distance of the predicted distribution from the true value, in units of the target: the absolute "
    "error, for a prediction without spread; 0 is best",
    COVERAGE: "share of true values inside their central 90\u00a0% interval; 90\u00a0% is right",
    HALF: "share of true values inside their central 50\u00a0% interval; 50\u00a0% is right",
    SHARPNESS: "mean standard deviation of the predicted distributions, in units of the target; lower is better if the "
    "coverage is right",
    "Accuracy": "share of right answers",
    BALANCED: "mean over classes of the share of their rows that are found, so that a rare class counts as much as a "
    "common one",
    "AUC": "area under the ROC curve, the probability that a row of a class is given a higher probability of it than a "
    "row of another; ½ is chance, 1 is best; the mean over classes",
    PR_AUC: "area under the precision-recall curve (average precision): how clean the list of rows is that are most "
    "probably of a class; 1 is best, chance is the share of the class; of the rarer of two classes, of more the mean",
    "Brier": "mean squared distance of the probabilities from the true answer; 0 is best, 2 is worst",
    "ECE": "expected calibration error: mean gap between confidence and share of right answers over bins of rows; "
    "0 is best",
}
"""What each score is, in one sentence."""


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
            HALF: float(np.mean(centred(facts, said) <= 0.5)),
            SHARPNESS: sharpness(said),
        }
    p = average(said)
    return {
        "Accuracy": cal.accuracy(y, p),
        BALANCED: float(np.nanmean(recall(facts, said))) if len(y) else float("nan"),
        "AUC": auc(y, p),
        PR_AUC: pr_auc(y, p),
        "NLL": cal.nll_categorical(y, p),
        "Brier": cal.brier(y, p),
        "ECE": cal.ece(y, p),
    }


def r_squared(y: np.ndarray, mean: np.ndarray) -> float:
    """1 − residual ÷ total sum of squares; NaN where the values are all equal."""
    total = float(np.sum((y - np.mean(y)) ** 2)) if len(y) else 0.0
    return 1 - float(np.sum((y - mean) ** 2)) / total if total > 0 else float("nan")


def sharpness(said: Predictions) -> float:
    """Mean over rows of the standard deviation of the predicted distribution."""
    return float(np.sqrt(variances(said.mean, said.std).total).mean())


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
    return None if other is None else paired(facts, facts.predictions, other)


def paired(facts: ReportData, first: Predictions, second: Predictions) -> Gap:
    """NLL of the one less that of the other, over the same rows."""
    return _mean(row_nll(facts, first) - row_nll(facts, second))


def squared(facts: ReportData, other: Predictions) -> Gap:
    """Squared error of the predicted means, or probabilities, less another's over the same rows."""
    if facts.task == "regression":
        of = lambda said: (facts.y - said.mean.mean(axis=0)) ** 2
    else:
        truth = np.eye(len(facts.classes or ()))[facts.y]
        of = lambda said: np.sum((average(said) - truth) ** 2, axis=1)
    return _mean(of(facts.predictions) - of(other))


def _mean(d: np.ndarray) -> Gap:
    stderr = float(d.std(ddof=1) / np.sqrt(len(d))) if len(d) > 1 else float("nan")
    return Gap(float(d.mean()), stderr)


def skill(facts: ReportData, other: Predictions) -> float:
    """1 − score/other's score, of CRPS or of Brier's: 1 is perfect, 0 no better, below 0 worse."""
    return _skill(facts, scores(facts, facts.predictions), scores(facts, other))


def _skill(facts: ReportData, own: dict[str, float], theirs: dict[str, float]) -> float:
    name = "CRPS" if facts.task == "regression" else "Brier"
    return 1 - own[name] / theirs[name] if theirs[name] > 0 else float("nan")


class Compared(NamedTuple):
    """A baseline: its scores, how the posterior's NLL differs from its, and the posterior's skill over it."""

    name: str
    scores: dict[str, float]
    gap: Gap
    skill: float


def compare_baselines(facts: ReportData, own: dict[str, float] | None = None) -> list[Compared]:
    """Every baseline beside the posterior, on the same rows. own: scores of the posterior, if they are known."""
    if not facts.baselines:
        return []
    own, every = own or scores(facts, facts.predictions), []
    for name, other in facts.baselines.items():
        theirs = scores(facts, other)
        found = paired(facts, facts.predictions, other)
        every.append(Compared(name, theirs, found, _skill(facts, own, theirs)))
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
