"""The figure of `stanley-law`."""

from __future__ import annotations

import numpy as np

from langevin.audit import bins

CORRECTIONS = ("none", "metropolis", "hk2", "weights")


def draw(shown, paths, figures, path: str) -> None:
    """Densities on N(0, 1); E x² and the error of the covariance by correction; the precision as it is learnt."""
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    ink, red, blue, grey = "#22303c", "#c8553d", "#2a6f97", "#8d99ae"
    figure, axes = plt.subplots(1, 4, figsize=(15, 3.8), layout="constrained", width_ratios=(1.5, 1, 1, 1.3))
    x = np.linspace(-4, 4, 801)
    truth = np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)
    axis = axes[0]
    axis.stairs(shown["none"], bins.EDGES[1:-1], color=red, fill=True, alpha=0.35, label="as published, measured")
    axis.plot(*shown["claimed"], color=red, lw=1.6, label="the law it names, p/γ")
    axis.stairs(shown["metropolis"], bins.EDGES[1:-1], color=blue, lw=1.2, label="metropolis, measured")
    axis.plot(x, truth, color=ink, lw=1.2, ls="--", label="target N(0, 1)")
    axis.set(title="density, τ = ½", xlabel="x", xlim=(-4, 4), ylim=(0, 0.56))
    axis.legend(frameon=False, fontsize=8, loc="upper left")
    colours = [red, blue, blue, blue]
    for axis, name, title in (
        (axes[1], "ex2", "E x² on N(0, 1)"),
        (axes[2], "cov_error", "relative error of covariance"),
    ):
        values = [figures[f"{name}_{c}"] for c in CORRECTIONS]
        labels = [f"{c}*" if c == "weights" and name == "cov_error" else c for c in CORRECTIONS]
        bars = axis.bar(labels, values, color=colours, width=0.65)
        axis.bar_label(bars, [f"{v:.3f}" for v in values], padding=2, fontsize=8)
        axis.set_title(title)
        axis.tick_params(axis="x", labelrotation=25)
        axis.margins(y=0.12)
    axes[1].axhline(1.0, color=ink, lw=1.2, ls="--")
    axes[1].plot([-0.45, 0.45], [figures["ex2_none_predicted"]] * 2, color=ink, lw=1.2, ls=":")
    axes[2].set_xlabel("* one step size a chain, not one a coordinate", fontsize=8)
    axis = axes[3]
    for c, colour in zip(CORRECTIONS, (red, blue, grey, ink), strict=True):
        axis.plot(paths[c].mean(0), color=colour, lw=1.4, label=c)
    axis.axhline(1.0, color=ink, lw=1.0, ls="--")
    axis.axhline(figures["precision_none_predicted"], color=red, lw=1.0, ls=":")
    axis.set(title="precision learnt from N(0, 1), τ = 0.3", xlabel="updates (dotted: predicted)", ylim=(0.8, 2.15))
    axis.legend(frameon=False, fontsize=8, loc="center right")
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
