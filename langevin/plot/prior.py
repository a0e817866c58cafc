"""What a network says before it has seen data: functions and targets drawn from its prior, with the data on top."""

from __future__ import annotations

from typing import Any

import numpy as np

from langevin.core import noise
from langevin.plot import axes as shared
from langevin.plot.drawn import Drawn, drawn_from

STATISTICS: dict[str, Any] = {"mean": np.mean, "standard deviation": np.std, "smallest": np.min, "largest": np.max}


def prior_predictive(
    source: Any, X: Any = None, y: Any = None, *, draws: int = 100, functions: int = 30, key: Any = None
) -> np.ndarray:
    """Draws from the prior of a BNN, or of an estimator before it is fitted, beside the data; two axes.

    Regression: functions over a little more than the range of the only column, or the distribution of targets where
    there are more columns; and statistics of a draw of all targets. Classification: how confident rows are, and the
    share of rows in each class.

    X, y: of an estimator the table; of a BNN other rows than its own, and their targets.
    draws: of the prior.
    functions: of them, as lines.
    key: of the draws.
    """
    found = drawn_from(source, X, y, draws, noise.key(0) if key is None else key)
    _, axes = shared.subplots(1, 2, size=(9.2, 3.8))
    left, right = axes[0]
    if found.proba is not None:
        _confidence(left, found.proba)
        _classes(right, found)
    else:
        if found.line is not None:
            _functions(left, found, functions)
        else:
            _targets(left, found)
        _statistics(right, found)
    for ax in axes[0]:
        where = dict(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2)
        ax.legend(**where, ncols=4, fontsize="small", frameon=False, columnspacing=1.2, handlelength=1.4)
    return axes[0]


def _functions(ax: Any, found: Drawn, functions: int) -> None:
    x, f = found.line
    for i, row in enumerate(f[:functions]):
        ax.plot(x, row, color=shared.BLUE, linewidth=0.8, alpha=0.45, label=None if i else "mean, drawn from the prior")
    if found.y is not None:
        ax.plot(found.x, found.y, ".", color="0.1", markersize=4, label="data")
    low, high = np.quantile(f, [0.05, 0.95])
    if found.y is not None:
        low, high = min(low, found.y.min()), max(high, found.y.max())
    ax.set(xlabel=found.label, ylabel="target", ylim=(low - 0.05 * (high - low), high + 0.05 * (high - low)))


def _targets(ax: Any, found: Drawn) -> None:
    drawn = found.targets.ravel()
    low, high = np.quantile(drawn, [0.005, 0.995])
    if found.y is not None:
        low, high = min(low, found.y.min()), max(high, found.y.max())
    bins = np.linspace(low, high, 41)
    ax.hist(drawn, bins, density=True, color=shared.BLUE, alpha=0.5, label="drawn from the prior")
    if found.y is not None:
        ax.hist(found.y, bins, density=True, histtype="step", color="0.1", linewidth=1.2, label="data")
    ax.set(xlabel="target", ylabel="density")


def _statistics(ax: Any, found: Drawn) -> None:
    """Every statistic in units of the data's standard deviation around the data's, by its quantiles over draws."""
    own = found.targets.ravel() if found.y is None else found.y
    centre, unit = own.mean(), own.std() or 1.0
    for place, (name, of) in enumerate(STATISTICS.items()):
        shift = 0.0 if name == "standard deviation" else centre
        values = (np.array([of(row) for row in found.targets]) - shift) / unit
        low, quarter, middle, three, high = np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95])
        label = ("5 to 95 %", "25 to 75 %", "median") if not place else (None, None, None)
        ax.plot([low, high], [place, place], color=shared.BLUE, linewidth=1, label=label[0])
        ax.plot([quarter, three], [place, place], color=shared.BLUE, linewidth=3.5, label=label[1])
        ax.plot(middle, place, "o", color=shared.BLUE, markersize=5, label=label[2])
        if found.y is not None:
            ax.plot((of(own) - shift) / unit, place, "D", color="0.1", markersize=5, label=None if place else "data")
    ax.set_yticks(range(len(STATISTICS)), list(STATISTICS))
    ax.set_ylim(len(STATISTICS) - 0.5, -0.5)
    ax.set_xscale("symlog", linthresh=3.0)
    low, high = ax.get_xlim()
    ticks = [t for t in (-10_000, -1000, -100, -10, -3, 0, 3, 10, 100, 1000, 10_000) if low <= t <= high]
    ticks = [t for t in ticks if abs(t) != 3 or max(-low, high) < 300]
    ax.set_xticks(ticks, [str(t).replace("-", "−") for t in ticks])
    ax.minorticks_off()
    ax.set_xlabel(f"in standard deviations of the {'draws' if found.y is None else 'data'}")


def _confidence(ax: Any, proba: np.ndarray) -> None:
    bins = np.linspace(1 / proba.shape[2], 1, 31)
    ax.hist(proba.max(axis=2).ravel(), bins, density=True, color=shared.BLUE, alpha=0.5, label="drawn from the prior")
    ax.set(xlabel="confidence: largest probability of a row", ylabel="density", xlim=(bins[0], 1))


def _classes(ax: Any, found: Drawn) -> None:
    share = found.proba.mean(axis=1)  # (draw, class)
    places = np.arange(share.shape[1])
    low, quarter, middle, three, high = np.quantile(share, [0.05, 0.25, 0.5, 0.75, 0.95], axis=0)
    ax.vlines(places, low, high, color=shared.BLUE, linewidth=1, label="5 to 95 % of draws")
    ax.vlines(places, quarter, three, color=shared.BLUE, linewidth=3.5, label="25 to 75 %")
    ax.plot(places, middle, "o", color=shared.BLUE, markersize=5, label="median")
    if found.y is not None:
        ax.plot(
            places,
            np.bincount(found.y.astype(int), minlength=len(places)) / len(found.y),
            "D",
            color="0.1",
            markersize=5,
            label="data",
        )
    ax.set_xticks(places, found.classes or [str(c) for c in places])
    ax.set(xlabel="class", ylabel="share of rows", ylim=(0, 1))
