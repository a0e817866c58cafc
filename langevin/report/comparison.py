"""Two models side by side: scores of rows held out, of training rows as if each had been left out, and evidence."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from langevin.core import document
from langevin.core.files import StoreError
from langevin.diagnostics import compare
from langevin.report import evidence
from langevin.report.data import ReportData
from langevin.report.scores import row_nll

ROWS = 5000  # training rows that are scored, at most
HEAVY = 0.7  # Pareto's k above which a left-out density is not to be trusted
WIDE = 0.4  # variance of a row's log likelihood above which WAIC is not
DOCUMENT = "scores"
SCORES = (
    ("nll", "log score", "test"),
    ("crps", "−CRPS", "test"),
    ("loo", "PSIS-LOO", "train"),
    ("waic", "WAIC", "train"),
)


def write(folder: Path, facts: Sequence[ReportData], estimator: Any, X: Any, y: np.ndarray) -> None:
    """Scores of every row, for `compared`; those of several targets are sums, and have no common CRPS."""
    first, *others = facts
    truth = np.stack([one.y for one in facts], axis=1) if others else first.y
    nll = np.sum([row_nll(one, one.predictions) for one in facts], axis=0)
    found: dict[str, Any] = dict(nll=-nll, test=evidence.fingerprint(truth))
    if first.task == "regression" and not others:
        found["crps"] = -first.predictions.mixture().crps(first.y, each=True)
    index = np.linspace(0, len(y) - 1, min(ROWS, len(y))).round().astype(int)
    each = estimator.log_likelihood(X.iloc[index], y[index])
    found |= dict(waic=compare.waic(each), variance=np.var(each, axis=0), train=evidence.fingerprint(y))
    with contextlib.suppress(ImportError):  # without ArviZ there is WAIC alone
        found["loo"], found["k"] = compare.loo(each)
    document.save(folder, DOCUMENT, found)


def compared(first: Path, second: Path) -> list[dict[str, Any]]:
    """A row for every score that both models have on the same rows; larger is better in all of them.

    Scores are means over rows; the log evidence is of all of them together.
    """
    a, b = _read(first), _read(second)
    rows = []
    for score, name, _ in SCORES:
        if _missing(score, a, b):
            continue
        gap = compare.difference(a[score], b[score])
        notes = _doubts(score, a, b)
        rows.append(
            dict(score=name, first=float(a[score].mean()), second=float(b[score].mean()), difference=gap.mean)
            | dict(stderr=gap.stderr, better=gap.better, notes=notes)
        )
    if weighed := evidence.factor(first, second):
        rows.append(weighed)
    if not rows:
        raise ValueError(f"compare: {first} and {second} have no rows in common; fit both to one table with one seed.")
    return rows


def left_out(first: Path, second: Path) -> list[str]:
    """Why a score is not among the rows of `compared`, a sentence for each; only regressions have a CRPS."""
    a, b = _read(first), _read(second)
    why = [(name, _missing(score, a, b)) for score, name, _ in SCORES if score != "crps"]
    return [f"{name} is not shown: {reason}." for name, reason in why if reason]


def _missing(score: str, a: dict[str, Any], b: dict[str, Any]) -> str:
    """Why two models cannot be compared by a score; nothing where they can."""
    rows_of = next(rows for key, _, rows in SCORES if key == score)
    if str(a[rows_of]) != str(b[rows_of]):
        return f"the models have different {'test' if rows_of == 'test' else 'training'} rows; fit both with one seed"
    without = [place for place, model in (("first", a), ("second", b)) if score not in model]
    if without and score == "loo":
        return (
            f"ArviZ was not installed when the {' and the '.join(without)} model was fitted; install langevin[arviz] "
            "and fit again"
        )
    return f"the {' and the '.join(without)} model has none" if without else ""


def trained(folder: Path) -> str:
    """The fingerprint of the targets that a model was trained on; nothing where its scores were not kept."""
    return str(_read(folder)["train"]) if document.exists(folder, DOCUMENT) else ""


def _doubts(score: str, *models: dict[str, Any]) -> list[str]:
    """Why a score is not to be trusted, if it is not."""
    what, limit, name = {"loo": ("k", HEAVY, "PSIS-LOO: k"), "waic": ("variance", WIDE, "WAIC: the variance")}.get(
        score, ("", 0.0, "")
    )
    share = max((float(np.mean(m[what] > limit)) for m in models if what in m), default=0.0)
    told = f"{name} is above {limit} for {share:.0%} of rows; trust the rows held out more."
    return [told] if share > 0.01 else []


def _read(folder: Path) -> dict[str, Any]:
    if not document.exists(folder, DOCUMENT):
        raise StoreError(f"compare: {folder} holds no scores; `langevin fit --out` writes them.")
    return document.load(folder, DOCUMENT)
