"""Charts of predictions: bands of the posterior predictive, and whether they hold what they promise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from langevin.diagnostics import calibration as measures
from langevin.plot import axes as shared
from langevin.plot.source import predictions_of


def predictive_band(
    source: Any,
    X: Any,
    y: Any = None,
    *,
    predict: Callable | None = None,
    levels: Sequence[float] = (0.5, 0.9),
    ax: Any = None,
) -> Any:
    """Median and central intervals of the prediction of every row, and the targets where they are given.

    One column of numbers is the horizontal axis; of more columns rows are put in the order of their median.
    predict: of a Posterior, a function such as `bnn(…).predict`.
    """
    said = predictions_of(source, X, predict, "predictive_band")
    if not {"mean", "std"} <= set(said):
        raise ValueError(f"predictive_band: it draws regression, and predictions are {', '.join(said)}.")
    levels = sorted(levels, reverse=True)
    if not levels or not all(0 < level < 1 for level in levels):
        raise ValueError(f"predictive_band: levels are {levels}; each must lie between 0 and 1.")
    below = [(1 - level) / 2 for level in levels]
    found = measures.quantiles(said["mean"], said["std"], [0.5, *below, *(1 - p for p in below)])
    x, label = _horizontal(X, found[0])
    order, ax = np.argsort(x, kind="stable"), shared.one(ax)
    for i, level in enumerate(levels):
        low, high = found[1 + i][order], found[1 + len(levels) + i][order]
        ax.fill_between(x[order], low, high, color=shared.BLUE, alpha=0.18, linewidth=0, label=f"{100 * level:g} %")
    ax.plot(x[order], found[0][order], color=shared.BLUE, linewidth=1.4, label="median")
    if y is not None:
        ax.plot(x[order], np.asarray(y, float)[order], ".", color="0.15", markersize=4, alpha=0.7, label="target")
    ax.set(xlabel=label, ylabel=getattr(y, "name", None) or "target")
    ax.legend(loc="best", fontsize="small", frameon=False)
    return ax


def _horizontal(X: Any, median: np.ndarray) -> tuple[np.ndarray, str]:
    """The column where there is one of numbers, else the places of rows by their median."""
    values = np.asarray(X)
    values = values[:, None] if values.ndim == 1 else values
    if values.shape[1] == 1:
        try:
            return values[:, 0].astype(float), str(X.columns[0]) if hasattr(X, "columns") else "x"
        except ValueError:
            pass
    places = np.empty(len(median))
    places[np.argsort(median, kind="stable")] = np.arange(1, len(median) + 1)
    return places, "rows, by their median"


def calibration(source: Any, X: Any, y: Any, *, predict: Callable | None = None, bins: int = 10) -> np.ndarray:
    """Whether predictions are calibrated on rows (X, y) that were not used to fit; two axes.

    Regression: the share of targets below each predicted quantile, and the histogram of the PIT, F(y). Classification:
    accuracy against confidence, and how many rows have each confidence. Bands are two standard deviations for as many
    rows where predictions are calibrated.
    """
    said = predictions_of(source, X, predict, "calibration")
    _, axes = shared.subplots(1, 2, size=(8.0, 3.6))
    if {"mean", "std"} <= set(said):
        _regression(axes[0], measures.pit(np.asarray(y, float), said["mean"], said["std"]), bins)
    elif "proba" in said:
        _classification(axes[0], _codes(source, y), said["proba"], bins)
    else:
        raise ValueError(f"calibration: it draws mean and std, or proba, and predictions are {', '.join(said)}.")
    axes[0, 0].legend(loc="lower right", fontsize="small", frameon=False)
    return axes[0]


def _codes(source: Any, y: Any) -> np.ndarray:
    """Labels as numbers of classes."""
    labels = np.asarray(y)
    if not hasattr(source, "classes_"):
        return labels
    known = np.isin(labels, source.classes_)
    if not known.all():
        raise ValueError(f"calibration: the class {labels[~known][0]!r} was not in the rows of the fit; leave it out.")
    return np.searchsorted(source.classes_, labels)


def _regression(axes: Sequence[Any], pit: np.ndarray, bins: int) -> None:
    levels, n = np.linspace(0, 1, 101), len(pit)
    left, right = axes
    spread = 2 * np.sqrt(levels * (1 - levels) / n)
    left.fill_between(levels, levels - spread, levels + spread, color=shared.GREY, alpha=0.15, linewidth=0)
    left.plot(levels, levels, "--", color=shared.GREY, linewidth=1, label="calibrated")
    left.plot(levels, measures.calibration_curve(pit, levels), color=shared.BLUE, label="observed")
    left.set(xlabel="predicted quantile level", ylabel="share of targets below it", xlim=(0, 1), ylim=(0, 1))
    counts, edges = np.histogram(pit, bins=bins, range=(0, 1))
    around = 2 * np.sqrt(n / bins * (1 - 1 / bins))
    right.axhspan(n / bins - around, n / bins + around, color=shared.GREY, alpha=0.15, linewidth=0)
    right.axhline(n / bins, color=shared.GREY, linestyle="--", linewidth=1)
    right.stairs(counts, edges, fill=True, color=shared.BLUE, alpha=0.6)
    right.set(xlabel="probability integral transform F(y)", ylabel="rows in a bin", xlim=(0, 1))


def _classification(axes: Sequence[Any], y: np.ndarray, proba: np.ndarray, bins: int) -> None:
    left, right = axes
    found = measures.reliability(y, proba, bins)
    there = found.size > 0
    confidence, size = found.confidence[there], found.size[there]
    spread = 2 * np.sqrt(confidence * (1 - confidence) / size)
    left.plot([0, 1], [0, 1], "--", color=shared.GREY, linewidth=1, label="calibrated")
    left.errorbar(
        confidence, found.accuracy[there], yerr=spread, fmt="o-", color=shared.BLUE, markersize=4, label="observed"
    )
    left.set(xlabel="confidence: largest probability", ylabel="accuracy: share that was right", ylim=(0, 1.02))
    left.set_xlim(max(0.0, found.edges[:-1][there][0] - 0.05), 1.02)
    right.stairs(found.size, found.edges, fill=True, color=shared.BLUE, alpha=0.6)
    right.set(xlabel="confidence: largest probability", ylabel="rows in a bin")
