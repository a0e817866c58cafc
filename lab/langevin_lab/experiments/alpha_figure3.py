r"""Factorized Gaussians fitted to a correlated one by α-divergences: from a mode to all of the mass.

The target is N(0, Σ) with Σ = [[2, 1.5], [1.5, 1.6]], P = Σ⁻¹ and ρ² = P₁₂²/(P₁₁ P₂₂). D_α[q ‖ p] of Rényi (eq. 2.21,
stated right; 2.20 has p and q in each other's place) is stationary in the variances v of a factorized q where

    1/v_i = t P_ii,      α t² + (1 − 2α) t − (1 − α)(1 − ρ²) = 0,      t > 0,

from v_i = [(α V⁻¹ + (1 − α) P)⁻¹]_ii. α = 1 is KL(q ‖ p): t = 1, the conditional variances; α → 0 is KL(p ‖ q):
t = 1 − ρ², the marginal ones; α → ∞ is narrower than both, and α = −1, the χ² bound, wider. Fits are by `vi.fit`,
with ELBO at α = 1, InclusiveKL at 0, `Chi` at −1 and `Renyi` elsewhere, whose bound by K draws has its optimum at D_α's
only as K → ∞. `error` is the largest |σ/σ* − 1| of a row, and of |μ|/σ*.

References
----------
Chen, Li, Zhang & Li, Bayesian Computation in Deep Learning, eqs. (2.20)-(2.21), figure 3.
Li & Turner (2016), Rényi divergence variational inference, §2.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from langevin import vi
from langevin.core import noise
from langevin.core.result import Result
from langevin.core.target import Density

COVARIANCE = np.array([[2.0, 1.5], [1.5, 1.6]])
PRECISION = np.linalg.inv(COVARIANCE)
ALPHAS = (-1.0, 0.0, 0.25, 0.5, 0.75, 1.0, 2.0, 10.0)
STEPS = {"quick": 150, "cpu": 4000, "gpu": 4000}
DRAWS = {"quick": 256, "cpu": 65_536, "gpu": 65_536}
BARS = {"optimum_error": "≤ 0.01"}


def log_normal(position, precision):
    return -0.5 * position @ precision @ position


def optimum(alpha: float) -> np.ndarray:
    """Standard deviations at the stationary point."""
    apart = 1 - PRECISION[0, 1] ** 2 / (PRECISION[0, 0] * PRECISION[1, 1])
    if alpha == 0:
        t = apart
    else:
        b = 1 - 2 * alpha
        t = (-b + np.sqrt(b**2 + 4 * alpha * (1 - alpha) * apart)) / (2 * alpha)
    return 1 / np.sqrt(t * np.diag(PRECISION))


def objective(alpha: float, draws: int) -> Any:
    if alpha == 1:
        return vi.ELBO(draws=draws)
    if alpha == 0:
        return vi.InclusiveKL(draws=draws, estimator="dreg")
    if alpha < 0:
        return vi.Chi(1 - alpha, draws=draws)
    return vi.Renyi(alpha, draws=draws, estimator="dreg")


def run(size: str, seed: int) -> Result:
    target = Density(log_normal, (jnp.asarray(PRECISION, jnp.float32),))
    table = []
    for alpha in ALPHAS:
        how = dict(objective=objective(alpha, DRAWS[size]), steps=STEPS[size], rate=0.02, draws=1)
        posterior = vi.fit(noise.key(seed), target, vi.MeanField(0.8), jnp.zeros((1, 2)), **how)
        q = vi.approximation(posterior)
        mean, found, exact = np.asarray(q.params.mean), np.exp(np.asarray(q.params.log_scale)), optimum(alpha)
        error = max(np.abs(found / exact - 1).max(), np.abs(mean / exact).max())
        row = dict(alpha=alpha, sd_1=found[0], sd_2=found[1], exact_1=exact[0], exact_2=exact[1])
        table.append({k: float(v) for k, v in (row | dict(error=error)).items()})
    figures = dict(optimum_error=max(row["error"] for row in table))
    figures |= {f"sd_over_marginal_{row['alpha']:g}": row["sd_1"] / np.sqrt(COVARIANCE[0, 0]) for row in table}
    result = Result("alpha-figure3", figures, table, bars=dict(BARS))
    result.drawing = partial(draw, table)
    return result


def draw(table: list[dict], path: str) -> None:
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained", width_ratios=(1.1, 1))
    turn = np.linspace(0, 2 * np.pi, 200)
    circle = np.stack([np.cos(turn), np.sin(turn)])
    low = np.linalg.cholesky(COVARIANCE)
    for r in (1, 2):
        left.fill(*(r * low @ circle), color="#22303c", alpha=0.12, lw=0, label="target" if r == 1 else None)
    colours = plt.get_cmap("viridis")(np.linspace(0.0, 0.9, len(table)))
    for row, colour in zip(table, colours, strict=True):
        words = {1.0: "1, KL(q‖p)", 0.0: "0, KL(p‖q)", -1.0: "−1, χ²"}.get(row["alpha"], f"{row['alpha']:g}")
        left.plot(row["sd_1"] * circle[0], row["sd_2"] * circle[1], color=colour, lw=1.8, label=words)
    left.set(aspect="equal", xlabel=r"$\theta_1$", ylabel=r"$\theta_2$", title="one standard deviation of each fit")
    left.legend(frameon=False, title=r"$\alpha$", loc="center left", bbox_to_anchor=(1.0, 0.5))
    fine = np.concatenate([np.linspace(-1, 2, 120), np.linspace(2, 10, 40)])
    for k, colour in ((0, "#2a6f97"), (1, "#d1495b")):
        right.plot(fine, [optimum(a)[k] for a in fine], color=colour, lw=1.5)
        right.plot([r["alpha"] for r in table], [r[f"sd_{k + 1}"] for r in table], "o", color=colour, ms=6)
        right.axhline(np.sqrt(COVARIANCE[k, k]), color=colour, ls=":", lw=1)
        right.annotate(rf"$\sigma_{k + 1}$", (10, optimum(10.0)[k]), (4, -3), textcoords="offset points", color=colour)
    right.set(xscale="symlog", xlabel=r"$\alpha$", ylabel="standard deviation", title="fits (dots) and optima (lines)")
    right.set_xticks([-1, 0, 0.5, 1, 2, 10], ["−1", "0", "½", "1", "2", "10"])
    right.text(0.98, 0.96, "dotted: marginal", transform=right.transAxes, ha="right", va="top", fontsize=9)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
