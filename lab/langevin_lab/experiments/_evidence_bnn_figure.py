"""The figure of `reproduce evidence-bnn`: bounds on simulated data, and estimates on real data."""

from __future__ import annotations

NATS = 2.0  # what a bracket may be wide


def draw(rows: list[dict], path: str) -> None:
    """A line for every case: bounds of simulated sets around their middle, and what methods say of the real data."""
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    cases = list(dict.fromkeys(row["case"] for row in rows))
    most = max(sum("bracket" in row for row in rows if row["case"] == case) for case in cases)
    figure, axes = plt.subplots(
        len(cases), 2, figsize=(9, 0.9 + len(cases) * (1.0 + 0.2 * max(most, 3))), layout="constrained", squeeze=False
    )
    brackets = [row for row in rows if "bracket" in row]
    reach = 1.15 * max(NATS / 2, *(0.5 * abs(r["bracket"]) + 2 * max(_errors(r)) for r in brackets))
    for (left, right), case in zip(axes, cases, strict=True):
        own = [row for row in rows if row["case"] == case]
        _simulated_panel(left, [row for row in own if "bracket" in row], reach)
        _real_panel(right, [row for row in own if "log_z" in row])
        left.set_ylabel(case.replace("_", ",\nσ "), rotation=0, ha="right", va="center", fontsize=11)
    axes[0, 0].set_title(f"simulated data: bounds (shaded: {NATS:g} nats)", fontsize=10)
    axes[0, 1].set_title("real data: estimates", fontsize=10)
    axes[0, 0].legend(frameon=False, fontsize=8, loc="upper right", borderaxespad=0)
    axes[-1, 0].set_xlabel("bound $-$ middle of both (nats), with two standard errors")
    axes[-1, 1].set_xlabel(r"$\log Z$ (nats), with two standard errors")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _errors(row: dict) -> tuple[float, float]:
    return row["stderr"], row["stderr_upper"]


def _simulated_panel(axis, rows: list[dict], reach: float) -> None:
    axis.axvspan(-NATS / 2, NATS / 2, color="#e3e8ee", lw=0, zorder=0)
    axis.axvline(0, color="#9aa5b1", lw=0.8, zorder=1)
    for i, row in enumerate(rows):
        half = 0.5 * row["bracket"]
        for at, y, name, colour, mark in (
            (-half, i + 0.1, "lower", "#2a6f97", ">"),
            (half, i - 0.1, "upper", "#c8553d", "<"),
        ):
            style = dict(fmt=mark, ms=6, lw=1.6, color=colour, zorder=3, label=name if i == 0 else None)
            axis.errorbar(at, y, xerr=2 * _errors(row)[name == "upper"], **style)
    axis.set(ylim=(len(rows) - 0.4, -0.6), xlim=(-reach, reach))
    axis.set_yticks(range(len(rows)), [f"set {i + 1}" for i in range(len(rows))], fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def _real_panel(axis, rows: list[dict]) -> None:
    colours = {"unbiased-Z": "#2a6f97", "consistent": "#e09f3e", "none": "#8a8f94"}
    for i, row in enumerate(rows):
        error = 2 * row["stderr"]
        axis.errorbar(row["log_z"], i, xerr=error, fmt="o", ms=6, lw=1.8, color=colours[row["guarantee"]])
        at = row["log_z"], i - 0.16
        told = f"{row['log_z']:.1f} ± {row['stderr']:.1f}, ESS {row['ess']:.0f}".replace("-", "−")
        axis.annotate(told, at, ha="center", va="bottom", fontsize=8)
    axis.set(ylim=(len(rows) - 0.5, -0.8))
    axis.margins(x=0.3)
    axis.set_yticks(range(len(rows)), [f"{row['method']}\n({row['guarantee']})" for row in rows], fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
