"""Charts of chains: traces, ranks, intervals and energy errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from langevin.core.types import PyTree
from langevin.plot import axes as shared
from langevin.plot.source import chains_of, posterior_of

PANELS = 8  # quantities in one chart
INTERVALS = (0.05, 0.25, 0.5, 0.75, 0.95)


def trace(source: Any, fn: Callable[[PyTree], PyTree] | None = None, *, limit: int = PANELS) -> np.ndarray:
    """Every chain, draw by draw, and beside it the histogram of every chain; axes (quantity, 2).

    fn: what to draw of a position; without it a position of at most `limit` numbers, else the log density.
    """
    found = chains_of(source, "trace", fn, limit)
    rows, colours = len(found.values), shared.colours(len(found.chains))
    _, axes = shared.subplots(rows, 2, size=(8.0, 0.8 + 1.7 * rows), width_ratios=(3, 1), sharey="row")
    for (left, right), (name, x) in zip(axes, found.values.items(), strict=True):
        bins = np.histogram_bin_edges(x[np.isfinite(x)], bins=min(40, max(8, x.shape[1] // 10)))
        for chain, values, colour in zip(found.chains, x, colours, strict=True):
            left.plot(np.arange(1, len(values) + 1), values, color=colour, linewidth=0.7, label=f"chain {chain}")
            right.hist(values, bins=bins, density=True, histtype="step", orientation="horizontal", color=colour)
        left.set_ylabel(name)
        right.tick_params(labelbottom=False)
    axes[-1, 0].set_xlabel("draw")
    axes[-1, 0].xaxis.get_major_locator().set_params(integer=True)
    axes[-1, 1].set_xlabel("density")
    shared.legend(axes[0, 0], len(colours), found.left_out)
    return axes


def rank(
    source: Any, fn: Callable[[PyTree], PyTree] | None = None, *, bins: int = 20, limit: int = PANELS
) -> np.ndarray:
    """How the ranks of each chain's draws among those of all are spread: flat where chains agree; axes (quantity,).

    The dashed line is what is expected, the band two standard deviations around it for independent draws.
    """
    from scipy.stats import rankdata

    found = chains_of(source, "rank", fn, limit)
    rows, colours = len(found.values), shared.colours(len(found.chains))
    _, axes = shared.subplots(rows, size=(6.4, 0.9 + 1.7 * rows), sharex=True)
    for ax, (name, x) in zip(axes[:, 0], found.values.items(), strict=True):
        ranks = (rankdata(x).reshape(x.shape) - 0.5) / x.size
        expected = x.shape[1] / bins
        spread = 2 * np.sqrt(expected * (1 - 1 / bins))
        ax.axhspan(expected - spread, expected + spread, color=shared.GREY, alpha=0.15, linewidth=0)
        ax.axhline(expected, color=shared.GREY, linestyle="--", linewidth=1)
        for chain, own, colour in zip(found.chains, ranks, colours, strict=True):
            counts, edges = np.histogram(own, bins=bins, range=(0, 1))
            ax.stairs(counts, edges, baseline=None, color=colour, label=f"chain {chain}", linewidth=1.2)
        ax.set_ylabel(f"{name}\ndraws in a bin")
        ax.set_ylim(bottom=0)
    axes[-1, 0].set_xlabel("rank among all chains, as a share")
    shared.legend(axes[0, 0], len(colours), found.left_out)
    return axes[:, 0]


def forest(
    source: Any, fn: Callable[[PyTree], PyTree] | None = None, *, limit: int = 5 * PANELS, ax: Any = None
) -> Any:
    """Median, 50 % and 90 % interval of every quantity, chain by chain."""
    found = chains_of(source, "forest", fn, limit)
    colours, chains = shared.colours(len(found.chains)), len(found.chains)
    ax = shared.one(ax, (6.0, 1.2 + 0.35 * len(found.values)))
    for row, x in enumerate(found.values.values()):
        for i, (chain, values, colour) in enumerate(zip(found.chains, x, colours, strict=True)):
            low, quarter, middle, three, high = np.quantile(values, INTERVALS)
            y = row + 0.6 * ((i + 0.5) / chains - 0.5)
            ax.plot([low, high], [y, y], color=colour, linewidth=1)
            ax.plot([quarter, three], [y, y], color=colour, linewidth=2.5)
            ax.plot(middle, y, "o", color=colour, markersize=3.5, label=None if row else f"chain {chain}")
        if row:
            ax.axhline(row - 0.5, color=shared.GREY, linewidth=0.3)
    ax.set_yticks(range(len(found.values)), list(found.values))
    ax.set_ylim(len(found.values) - 0.5, -0.5)
    ax.set_xlabel("median, 50 % and 90 % interval")
    shared.legend(ax, chains, found.left_out)
    return ax


def energy(source: Any) -> np.ndarray:
    """The energy error of every step that was stored, and its root mean square in every chain; two axes.

    A chain whose error is far above the others' is where the step size is too large, or where it has not arrived.
    """
    posterior = posterior_of(source, "energy")
    error = np.asarray(posterior.info.energy_error, float)
    if not np.any(error[np.isfinite(error)]):
        name = type(posterior.kernel).__name__
        raise ValueError(f"energy: {name} reports no energy errors; HMC, MALA, MAMS, MCLMC and GHMC do.")
    colours, chains = shared.colours(len(error)), np.arange(len(error))
    _, axes = shared.subplots(1, 2, size=(8.0, 3.2), width_ratios=(2, 1))
    left, right = axes[0]
    for chain, values, colour in zip(chains, error, colours, strict=True):
        left.plot(np.arange(1, len(values) + 1), values, ".", markersize=2.5, color=colour, label=f"chain {chain}")
    size = np.array([np.sqrt(np.mean(e[np.isfinite(e)] ** 2)) if np.isfinite(e).any() else np.nan for e in error])
    right.bar(chains, size, color=colours)
    left.set(xlabel="draw", ylabel="energy error, nats")
    right.set(xlabel="chain", ylabel="root mean square, nats")
    right.xaxis.get_major_locator().set_params(integer=True)
    shared.legend(left, len(colours))
    return axes[0]
