"""Scores of a classification class by class: recall, precision, areas under curves, and which is taken for which."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from langevin.report.data import Predictions, ReportData


class OfClass(NamedTuple):
    """One class against the rest: its test rows, those given this answer, the share of the first that are found
    (recall) and of the second that are right (precision), and the areas under its ROC and precision-recall curves.

    NaN where there is nothing to divide by: no row of the class, or no row that is answered so.
    """

    name: str
    rows: int
    answered: int
    recall: float
    precision: float
    auc: float
    pr_auc: float


def each_class(facts: ReportData, said: Predictions) -> list[OfClass]:
    """Every class, in order."""
    p, tally = np.asarray(said.proba, float).mean(axis=0), confusion(facts, said)
    rows, answered, right = tally.sum(axis=1), tally.sum(axis=0), np.diag(tally)
    share = lambda k, of: float(right[k] / of[k]) if of[k] else float("nan")
    return [
        OfClass(
            name, int(rows[k]), int(answered[k]), share(k, rows), share(k, answered), *_areas(facts.y == k, p[:, k])
        )
        for k, name in enumerate(facts.classes or ())
    ]


def confusion(facts: ReportData, said: Predictions) -> np.ndarray:
    """How often each class (row) was given each answer (column)."""
    k = len(facts.classes or ())
    answer = np.asarray(said.proba, float).mean(axis=0).argmax(axis=1)
    return np.bincount(k * facts.y + answer, minlength=k * k).reshape(k, k)


def pr_auc(y: np.ndarray, proba: np.ndarray) -> float:
    """Area under the precision-recall curve, as average precision: of the rarer of two classes, of more the mean.

    Σ (R_n − R_n−1) P_n over thresholds n. A class without rows has none, nor has one that all rows are of. An answer
    that uses no feature has the share of the class.
    """
    inside = [y == k for k in range(proba.shape[1])]
    if len(inside) == 2:
        rarer = 0 if inside[0].sum() < inside[1].sum() else 1
        return _areas(inside[rarer], proba[:, rarer])[1]
    found = [_areas(rows, proba[:, k])[1] for k, rows in enumerate(inside)]
    known = [area for area in found if area == area]
    return float(np.mean(known)) if known else float("nan")


def _areas(inside: np.ndarray, proba: np.ndarray) -> tuple[float, float]:
    """Under the ROC and the precision-recall curve."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    if not inside.any() or inside.all():
        return float("nan"), float("nan")
    return float(roc_auc_score(inside, proba)), float(average_precision_score(inside, proba))


def as_json(facts: ReportData) -> dict[str, Any]:
    """What `fit --json` holds of the classes; nothing in regression."""
    if facts.task != "classification":
        return {}
    plain = lambda v: None if isinstance(v, float) and v != v else v
    rows = [{k: plain(v) for k, v in c._asdict().items()} for c in each_class(facts, facts.predictions)]
    counts = confusion(facts, facts.predictions).tolist()
    return dict(classes=rows, confusion=dict(classes=list(facts.classes or ()), counts=counts))
