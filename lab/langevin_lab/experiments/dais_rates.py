r"""How fast the gap of differentiable annealing falls with steps η ~ K^{−c}, and the lags and terms it is made of.

On the paper's regression, exactly (`langevin_lab.oracle`): c = 1/8 … 1/2, γ = 0 and 0.9. Two things leave a gap: the
lag of the chain, K^{2c−1}, and the stationary distribution of the leapfrog, off by O(η⁴) at both ends of a Gaussian
path: K^{−4c}. So the gap is max(K^{2c−1}, K^{−4c}), least at c = 1/6: K^{−2/3}. Theorem 1 asks for c ≥ 1/4; the gap of
a Gaussian does not need that. γ keeps the exponents and makes a step as good as (1 + γ)/(1 − γ) of them: 19 for 0.9.

Lemma 1 (γ = 0) holds at every k, the first included: the mean never lags by more than 2|b| (K/10)^{2c}/(K − 1), and
`lemma1_share` is how much of that is reached. For c = 1/4 and 1/3 the largest lag of the mean is in the first percent
of the path and does not have the slope 2c − 1 at K = 10⁷ yet (`slope_lag_mean`); from β = ½ on it has
(`slope_late_mean`). The lag of the precision falls as max(K^{2c−1}, K^{−2c}), so the lemma needs its c ≥ 1/4.

The gap is ① + ② + ③ (eq. 17): ① ½|μ_K − μ|²_P falls as K^{4c−2}, the square of the lag; ② from the covariance of θ_K
and ③ from the kinetic energy fall as max(K^{2c−1}, K^{−2c}). For c < 1/4 the parts K^{−2c} of ② and ③ have opposite
signs and cancel, which is why the gap does not need c ≥ 1/4; ③ with c = 1/8 is not at its slope by K = 10⁷. For
c ≥ 1/4 nearly all of the gap is ③.

Perfect transitions leave Σ_k KL(p_{k−1} ‖ p_k) (eq. 8), which falls as 1/K; `perfect_limit` is K times that, divided by
its limit ½ (E_1 − E_0) log p(y | θ).

Figures: `slope_c16` … over the last decade with γ = 0, `slope_c16_gamma` with 0.9, and gaps of the longest ladder; the
same of lags and terms; `lemma1_slope_error` and `terms_slope_error`, how far slopes with β ≥ ½ and of terms are from
theory at most, for c ≥ 1/4 and γ = 0; `terms_sum_error`, the relative error of ① + ② + ③ against the gap.

References
----------
Zhang, Hsu, Li, Finn & Grosse (2021), Differentiable annealed importance sampling, eqs. 8 and 17; lemma 1, theorem 1.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from langevin.core.result import Result
from langevin_lab import oracle
from langevin_lab.experiments import _dais_theory as theory
from langevin_lab.experiments import _regression as paper

POWERS = {"c18": 1 / 8, "c16": 1 / 6, "c14": 1 / 4, "c13": 1 / 3, "c38": 3 / 8, "c12": 1 / 2}
WORDS = dict(zip(POWERS, ("1/8", "1/6", "1/4", "1/3", "3/8", "1/2"), strict=True))
SHOWN = ("c18", "c14", "c13")  # of whose lags and terms slopes are figures
LONGEST = {"quick": 4, "cpu": 7, "gpu": 7}
BARS = {
    "slope_c14": "-0.497",
    "slope_c16": "-0.666",
    "slope_c18": "-0.737",
    "slope_c12": "0.000",
    "lemma1_slope_error": "< 0.02",
    "lemma1_share_c14": "≤ 1",
    "lemma1_share_c13": "≤ 1",
    "slope_late_mean_c14_gamma": "-0.500 ± 0.02",
    "slope_late_mean_c13_gamma": "-0.333 ± 0.02",
    "slope_late_precision_c18": "-0.250 ± 0.02",
    "slope_term_covariance_c18": "-0.250 ± 0.02",
    "terms_slope_error": "< 0.02",
    "terms_sum_error": "< 1e-5",
    "perfect_slope": "-1.000 ± 0.001",
    "perfect_limit": "1.000 ± 0.001",
}


def run(size: str, seed: int) -> Result:
    known, lengths = paper.problem(), [10**i for i in range(1, LONGEST[size] + 1)]
    table = [row for gamma in (0.0, 0.9) for K in lengths for row in rows(known, K, gamma)]
    perfect = [dict(c="perfect", K=K, gap=theory.perfect(known, K)) for K in lengths]
    figures = rates(table) | lags(known, table) | terms(table)
    figures["perfect_slope"] = slope(perfect, "gap")
    figures["perfect_limit"] = lengths[-1] * perfect[-1]["gap"] / theory.perfect_limit(known)
    result = Result("dais-rates", figures, table + perfect, bars=dict(BARS) if size != "quick" else {})
    result.drawing = partial(draw, table, perfect)
    return result


def rows(known: oracle.Regression, K: int, gamma: float) -> list[dict]:
    """The gap, lags and terms of every c at one length."""
    gaps = oracle.gaps(known, K, list(POWERS.values()), gamma)
    parts = theory.follow(known, K, list(POWERS.values()), gamma)
    return [
        dict(gamma=gamma, c=name, K=K, gap=float(gaps[i])) | {part: float(v[i]) for part, v in parts.items()}
        for i, name in enumerate(POWERS)
    ]


def rates(table: list[dict]) -> dict[str, float]:
    found = {}
    for gamma, tail in ((0.0, ""), (0.9, "_gamma")):
        for name in POWERS:
            chosen = pick(table, gamma, name)
            found[f"slope_{name}{tail}"] = slope(chosen, "gap")
            found[f"gap_{name}{tail}"] = chosen[-1]["gap"]
    return found


def lags(known: oracle.Regression, table: list[dict]) -> dict[str, float]:
    """Slopes of lags of all steps and of the late ones, and the largest lag over the most there can be."""
    found: dict[str, float] = {}
    for name in SHOWN:
        chosen = pick(table, 0.0, name)
        found |= {f"slope_{part}_{name}": slope(chosen, part) for part in theory.LAGS}
        shares = [row["lag_mean"] / theory.most_lag(known, row["K"], POWERS[name]) for row in chosen]
        found[f"lemma1_share_{name}"] = max(shares)
        found[f"slope_late_mean_{name}_gamma"] = slope(pick(table, 0.9, name), "late_mean")
    return found | {"lemma1_slope_error": slope_error(table, ("late_mean", "late_precision"))}


def terms(table: list[dict]) -> dict[str, float]:
    found = {f"slope_{part}_{name}": slope(pick(table, 0.0, name), part) for name in SHOWN for part in theory.TERMS}
    found["terms_slope_error"] = slope_error(table, theory.TERMS)
    found["terms_sum_error"] = max(abs(sum(row[part] for part in theory.TERMS) / row["gap"] - 1) for row in table)
    return found


def slope_error(table: list[dict], parts) -> float:
    """The furthest that slopes are from theory for γ = 0 and c ≥ ¼, where the paper states them."""
    return max(
        abs(slope(pick(table, 0.0, name), part) - theory.exponents(c)[part])
        for name, c in POWERS.items()
        for part in parts
        if c >= 1 / 4
    )


def pick(table: list[dict], gamma: float, name: str) -> list[dict]:
    return [row for row in table if (row["gamma"], row["c"]) == (gamma, name)]


def slope(chosen: list[dict], part: str) -> float:
    """Over the last decade."""
    return float(np.log10(abs(chosen[-1][part] / chosen[-2][part])))


# --- the drawing ------------------------------------------------------------------------------------------------------


def draw(table: list[dict], perfect: list[dict], path: str) -> None:
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    shades = plt.get_cmap("viridis")(np.linspace(0.05, 0.85, len(POWERS)))
    colours = dict(zip(POWERS, shades, strict=True))
    shape, axes = plt.subplots(3, 2, figsize=(11, 12.6), layout="constrained")
    _gaps(axes[0], table, perfect, colours)
    _lags(axes[1], table, colours)
    for axis, name in zip(axes[2], ("c18", "c14"), strict=True):
        _terms(axis, pick(table, 0.0, name), name)
    for axis in axes.flat:
        axis.set(xscale="log", yscale="log", xlabel="steps $K$")
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[2]:
        axis.set_ylim(1e-8, 1e4)
    axes[2, 0].legend(frameon=False, loc="upper right")
    shape.suptitle("Pale: the exponents of theory", fontsize=10)
    shape.savefig(path, dpi=150)
    plt.close(shape)


def _line(axis, chosen: list[dict], part: str, colour, power: float | None, style: str = "o-", **kept) -> None:
    """|part| over K, and the last two decades of theory through its last value."""
    x, y = np.array([row["K"] for row in chosen]), np.abs([row[part] for row in chosen])
    axis.plot(x, y, style, color=colour, ms=4, lw=1.5, **kept)
    if power is not None:
        axis.plot(x[-3:], y[-1] * (x[-3:] / x[-1]) ** power, color=colour, lw=5, alpha=0.25)


def _gaps(axes, table, perfect, colours) -> None:
    for axis, gamma in zip(axes, (0.0, 0.9), strict=True):
        for name, c in POWERS.items():
            _line(axis, pick(table, gamma, name), "gap", colours[name], theory.exponents(c)["gap"], label=WORDS[name])
        _line(axis, perfect, "gap", "0.45", -1.0, "s--", label="perfect")
        axis.set_title(f"The gap, $\\gamma$ = {gamma:g}", loc="left")
    axes[0].set_ylabel(r"$\log Z\, -$ bound (nats)")
    axes[0].legend(frameon=False, title="$c$", ncols=2, loc="lower left")
    axes[1].sharey(axes[0])


def _lags(axes, table, colours) -> None:
    words = (("mean", r"$|\mu_{k-1} - \mu^{\beta_k}|$"), ("precision", r"$|\Lambda_{k-1} - \Lambda^{\beta_k}|$"))
    for axis, (part, formula) in zip(axes, words, strict=True):
        for name in SHOWN:
            power, chosen = theory.exponents(POWERS[name])[f"lag_{part}"], pick(table, 0.0, name)
            _line(axis, chosen, f"lag_{part}", colours[name], None)
            _line(axis, chosen, f"late_{part}", colours[name], power, "o:", mfc="white")
            end = chosen[-1]["K"], chosen[-1][f"lag_{part}"]
            axis.annotate(WORDS[name], end, (7, -3), textcoords="offset points", color=colours[name])
        axis.plot([], [], "o-", color="0.3", ms=4, label="all $k$")
        axis.plot([], [], "o:", color="0.3", ms=4, mfc="white", label=r"$k$ with $\beta_k$ ≥ ½")
        axis.margins(x=0.1)
        axis.set_title(f"Lemma 1: the lag of the {part}, $\\gamma$ = 0", loc="left")
        axis.set_ylabel(f"largest {formula}")
    axes[0].legend(frameon=False, loc="lower left")


def _terms(axis, chosen, name) -> None:
    powers = theory.exponents(POWERS[name])
    labels = ("① mean", "② covariance, negative where hollow", "③ kinetic")
    for part, colour, label in zip(theory.TERMS, ("#2a6f97", "#e09f3e", "#c8553d"), labels, strict=True):
        _line(axis, chosen, part, colour, powers[part], label=label)
        below = [row for row in chosen if row[part] < 0]
        if below:
            _line(axis, below, part, colour, None, "o", mfc="white", zorder=3)
    _line(axis, chosen, "gap", "black", powers["gap"], "-", label="① + ② + ③, the gap")
    axis.set_title(f"Terms of eq. 17, $c$ = {WORDS[name]}, $\\gamma$ = 0", loc="left")
    axis.set_ylabel("nats")
