"""Figures with the same look: constrained layout, few marks, as many colours as chains."""

from __future__ import annotations

from typing import Any

import numpy as np

GREY = "0.45"
BLUE = "#2a6fbb"


def subplots(rows: int, columns: int = 1, *, size: tuple[float, float], **options: Any) -> tuple[Any, np.ndarray]:
    """A figure and its axes (row, column); `size` is that of the whole in inches."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, **options)
    for ax in axes.flat:
        tidy(ax)
    return figure, axes


def one(ax: Any, size: tuple[float, float] = (6.0, 3.6)) -> Any:
    """The axes given, or new ones."""
    return subplots(1, size=size)[1][0, 0] if ax is None else ax


def tidy(ax: Any) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(visible=True, linewidth=0.5, alpha=0.35)
    ax.set_axisbelow(True)


def colours(n: int) -> list[Any]:
    """As many colours as chains, told apart where there are few."""
    import matplotlib as mpl

    if n <= 10:
        return [mpl.colormaps["tab10"](i) for i in range(n)]
    return [mpl.colormaps["viridis"](x) for x in np.linspace(0, 0.92, n)]


def legend(ax: Any, n: int, lost: tuple[int, ...] = ()) -> None:
    """Names of up to ten chains above the axes, and which were left out."""
    if n <= 10:
        where = dict(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2)
        ax.legend(**where, ncols=min(n, 5), fontsize="small", frameon=False, columnspacing=1.2, handlelength=1.4)
    if lost:
        chains = f"chain {lost[0]}" if len(lost) == 1 else f"chains {', '.join(map(str, lost))}"
        ax.figure.suptitle(f"{chains} diverged and {'is' if len(lost) == 1 else 'are'} left out", fontsize="small")
