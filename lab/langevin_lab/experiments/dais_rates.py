r"""How fast the gap of differentiable annealing falls with steps η ~ K^{−c}: as theory says, and fastest at c = 1/6.

On the paper's regression, exactly (`langevin_lab.oracle`): c = 1/8 … 1/2, γ = 0 and 0.9. Two things leave a gap: the
lag of the chain, K^{2c−1}, and the law of the integrator, off by O(η⁴) at both ends of a Gaussian path: K^{−4c}. So the
gap is max(K^{2c−1}, K^{−4c}), least at c = 1/6: K^{−2/3}. Theorem 1 asks for c ≥ 1/4; a Gaussian does not need that. γ
keeps the exponents and makes a step as good as (1 + γ)/(1 − γ) of them: 19 for 0.9.

Figures: `slope_c16` … over the last decade with γ = 0, `slope_c16_gamma` with 0.9, and gaps of the longest ladder.

References
----------
Zhang, Hsu, Li, Finn & Grosse (2021), Differentiable annealed importance sampling, theorem 1.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from langevin.core.result import Result
from langevin_lab import oracle
from langevin_lab.experiments import _regression as paper

POWERS = {"c18": 1 / 8, "c16": 1 / 6, "c14": 1 / 4, "c13": 1 / 3, "c38": 3 / 8, "c12": 1 / 2}
LONGEST = {"quick": 4, "cpu": 7, "gpu": 7}
BARS = {"slope_c14": "-0.497", "slope_c16": "-0.666", "slope_c18": "-0.737", "slope_c12": "0.000"}


def run(size: str, seed: int) -> Result:
    known = paper.problem()
    table = []
    for gamma in (0.0, 0.9):
        for i in range(1, LONGEST[size] + 1):
            found = oracle.gaps(known, 10**i, list(POWERS.values()), gamma)
            table += [dict(gamma=gamma, c=name, K=10**i, gap=float(g)) for name, g in zip(POWERS, found, strict=True)]
    figures = {}
    for gamma, tail in ((0.0, ""), (0.9, "_gamma")):
        for name in POWERS:
            gaps = [row["gap"] for row in table if (row["gamma"], row["c"]) == (gamma, name)]
            figures[f"slope_{name}{tail}"] = float(np.log10(gaps[-1] / gaps[-2]))
            figures[f"gap_{name}{tail}"] = gaps[-1]
    result = Result("dais-rates", figures, table, bars=dict(BARS) if size != "quick" else {})
    result.drawing = partial(draw, table)
    return result


def draw(table: list[dict], path: str) -> None:
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    colours = plt.get_cmap("viridis")(np.linspace(0.05, 0.85, len(POWERS)))
    words = ("1/8", "1/6", "1/4", "1/3", "3/8", "1/2")
    shape, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained", sharey=True)
    for axis, gamma in zip(axes, (0.0, 0.9), strict=True):
        for (name, c), colour, word in zip(POWERS.items(), colours, words, strict=True):
            rows = [row for row in table if (row["gamma"], row["c"]) == (gamma, name)]
            x, y = np.array([r["K"] for r in rows]), np.array([r["gap"] for r in rows])
            axis.plot(x, y, "o-", color=colour, ms=4, lw=1.5, label=word)
            axis.plot(x[-3:], y[-1] * (x[-3:] / x[-1]) ** max(2 * c - 1, -4 * c), color=colour, lw=5, alpha=0.25)
        axis.set(xscale="log", yscale="log", xlabel="steps $K$")
        axis.set_title(f"$\\gamma$ = {gamma:g}", loc="left")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel(r"$\log Z\, -$ bound (nats)")
    axes[0].legend(frameon=False, title="$c$", ncols=2)
    shape.suptitle(r"Pale: $K^{\max(2c-1,\,-4c)}$, lag or integrator", fontsize=10)
    shape.savefig(path, dpi=150)
    plt.close(shape)
