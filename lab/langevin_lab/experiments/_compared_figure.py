"""The figure of `smile-images` and `smile-gpt`: every method, mean and range over seeds."""

from __future__ import annotations

import numpy as np

LABELS = {
    "ensemble": "deep ensemble",
    "longer": "ensemble, trained on",
    "smile": "SMILE, corrected",
    "psmile": "pSMILE, published",
    "csghmc": "cyclical SGHMC",
    "sghmc": "SGHMC",
}


def draw(rows: list[dict], titles: dict[str, str], title: str, path: str) -> None:
    """A panel for every score: the mean of every method, and each seed."""
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    shown = {c: t for c, t in titles.items() if any(c in r for r in rows)}
    methods = list(dict.fromkeys(r["method"] for r in rows))
    figure, axes = plt.subplots(
        1, len(shown), figsize=(1.6 + 2.9 * len(shown), 1.4 + 0.42 * len(methods)), sharey=True, layout="constrained"
    )
    place = {m: len(methods) - 1 - i for i, m in enumerate(methods)}
    for axis, (column, words) in zip(np.atleast_1d(axes), shown.items(), strict=True):
        for m in methods:
            values = [r[column] for r in rows if r["method"] == m and column in r]
            if not values:
                continue
            colour = {"smile": "#2a6f97", "ensemble": "#22303c"}.get(m, "#8a8f94")
            if len(values) > 1:
                axis.plot(values, [place[m]] * len(values), "|", color=colour, ms=9, alpha=0.6)
            axis.plot(np.mean(values), place[m], "o", color=colour, ms=7, zorder=3)
            axis.annotate(
                f"{np.mean(values):.3g}" if column == "ece" else f"{np.mean(values):.4f}",
                (np.mean(values), place[m]),
                xytext=(0, 7),
                textcoords="offset points",
                ha="center",
                fontsize=8,
                color=colour,
                bbox=dict(boxstyle="square,pad=0.1", fc="white", ec="none"),
            )
        base = [r[column] for r in rows if r["method"] == "ensemble" and column in r]
        if base:
            axis.axvline(np.mean(base), color="#22303c", lw=0.8, ls="--", zorder=0)
        axis.set_title(words, fontsize=10)
        axis.margins(x=0.18)
        axis.set_ylim(-0.6, len(methods) - 0.3)
        axis.locator_params(axis="x", nbins=4)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    np.atleast_1d(axes)[0].set_yticks(list(place.values()), [LABELS[m] for m in place])
    several = "; bars: single seeds" if len({r["seed"] for r in rows}) > 1 else ""
    figure.suptitle(f"{title}; dashed: the deep ensemble they start at{several}", fontsize=10)
    figure.savefig(path, dpi=150)
    plt.close(figure)
