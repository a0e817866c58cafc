"""The bias of a metric and a drift that share a mini-batch, and its cure: a batch of its own for the metric.

Bayesian logistic regression, d = 20, N = 500, B = 50 with replacement, h = 1e-3, D = (ĝ² + λ²)^−½ with λ_j five
times the standard deviation of feature j. E[D(ĝ)ĝ] ≠ E[D]E[ĝ] when both come from one batch, and for Gaussian
gradient noise of variance S the law of one coordinate is p·E[D]^{−(1 + S/|H|)}: larger than the bias of Γ as soon
as S > |H|. The truth is 16 long MALA chains; `variance_ratio` is the posterior variance over it, mean over the 20
coordinates.
"""

from __future__ import annotations

import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import noise
from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.record import replace
from langevin.core.result import Result
from langevin.dynamics.metrics.windowed import Windowed
from langevin.samplers.adaptive_friction import AdaptiveFriction
from langevin.samplers.mala import MALA
from langevin.samplers.psgld import PSGLD
from langevin.samplers.riemannian import Riemannian
from langevin.samplers.sgld import SGLD
from langevin.targets.zoo import logistic

D, N, BATCH, STEP = 20, 500, 50, 1e-3
BARS = {
    "variance_ratio_same": "> 2",
    "variance_ratio_decoupled": "1 ± 0.06",
    "variance_ratio_held": "1 ± 0.06",
    "variance_ratio_windowed": "1 ± 0.06",
}

SHORT = {
    "SGLD": "sgld",
    "same batch, no Γ": "same",
    "own batch, no Γ": "own_no_gamma",
    "own batch of 1/8, hk2 (default)": "decoupled",
    "own batch of 1/8, pec": "held",
    "adaptive friction": "friction",
    "frozen windows, one late": "windowed",
}


def truth(key, exact, chains: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Posterior variances by MALA and their standard errors over chains."""
    k_init, k_run = jax.random.split(key)
    kernel = MALA(4e-3)
    states = begin_all(k_init, kernel, exact, jnp.zeros((chains, D)))
    warm = advance(k_run, kernel, exact, states, length=1, thin=4000)
    run = advance(jax.random.clone(k_run), kernel, exact, warm.states, length=draws, thin=20)
    x = np.asarray(run.kept, np.float64)
    each = ((x - x.mean((0, 1))) ** 2).mean(1)
    return each.mean(0), each.std(0, ddof=1) / np.sqrt(chains)


def kernels(floor) -> dict:
    """As published and decoupled, without Γ and with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "SGLD": SGLD(STEP),
            "same batch, no Γ": PSGLD(STEP, floor=floor, correction="none"),
            "same batch, pec": PSGLD(STEP, floor=floor, correction="pec"),
            "moving average, no Γ": PSGLD(STEP, floor=floor, decay=0.99, correction="none"),
            "own batch, no Γ": PSGLD(STEP, floor=floor, correction="none", metric_batch=1.0),
            "own batch, hutchinson": PSGLD(STEP, floor=floor, correction="hutchinson", metric_batch=1.0),
            "own batch, hk2": PSGLD(STEP, floor=floor, correction="hk2", metric_batch=1.0),
            "own batch of 1/8, hk2 (default)": PSGLD(STEP, floor=floor),
            "own batch of 1/8, pec": PSGLD(STEP, floor=floor, correction="pec", metric_batch=1 / 8),
            "adaptive friction": AdaptiveFriction(0.005, friction=1.0, floor=floor),
            "frozen windows, one late": Riemannian(STEP, metric=Windowed(floor, window=500)),
        }


def run(size: str, seed: int) -> Result:
    chains, draws = {"quick": (8, 40), "cpu": (64, 800), "gpu": (1024, 800)}[size]
    batched = logistic(noise.key(29, impl="hash"), N, D, batch=BATCH)
    exact = replace(batched, batch=None)
    k_truth, k_run = jax.random.split(noise.key(seed, impl="hash"))
    variance, stderr = truth(k_truth, exact, 16, 200 if size == "quick" else 4000)
    figures = {"truth_relative_error": float((stderr / variance).mean())}
    table = []
    for i, (name, kernel) in enumerate(kernels(5.0 * jnp.std(batched.data["x"], axis=0)).items()):
        k_init, k_go = jax.random.split(jax.random.fold_in(k_run, i))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            states = begin_all(k_init, kernel, batched, jnp.zeros((chains, D)))
            # the slowest coordinate relaxes in about 2,000 steps of the preconditioned kernels
            warm = advance(k_go, kernel, batched, states, length=1, thin=8000 if size != "quick" else 2000)
            out = advance(jax.random.clone(k_go), kernel, batched, warm.states, length=draws, thin=50)
        x = np.asarray(out.kept, np.float64)
        each = ((x - x.mean((0, 1))) ** 2).mean(1) / variance
        relative = each.mean(0)
        row = dict(method=name, variance_ratio=float(relative.mean()), low=float(relative.min()))
        row |= dict(high=float(relative.max()), stderr=float(each.mean(1).std(ddof=1) / np.sqrt(chains)))
        row["n_data"] = int(np.asarray(out.info.n_data)[0, -1]) // 50
        table.append(row)
        if name in SHORT:
            figures[f"variance_ratio_{SHORT[name]}"] = row["variance_ratio"]
    result = Result("adaptive-minibatch", figures, table, BARS)
    result.drawing = partial(draw, table)
    return result


def draw(table, path: str) -> None:
    """Variance ratios with their range over coordinates."""
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    figure, axis = plt.subplots(figsize=(8, 4), layout="constrained")
    place = np.arange(len(table))[::-1]
    mean = np.array([r["variance_ratio"] for r in table])
    span = np.array([[r["variance_ratio"] - r["low"], r["high"] - r["variance_ratio"]] for r in table]).T
    axis.axvline(1.0, color="#22303c", lw=1, ls="--")
    colours = ["#c8553d" if abs(m - 1) > 0.06 else "#2a6f97" for m in mean]
    axis.errorbar(mean, place, xerr=span, fmt="none", ecolor="0.7", elinewidth=2)
    axis.scatter(mean, place, color=colours, zorder=3)
    for r, p in zip(table, place, strict=True):
        axis.annotate(
            f"{r['variance_ratio']:.2f}", (r["high"], p), xytext=(6, -3), textcoords="offset points", fontsize=9
        )
    axis.margins(x=0.08)
    axis.set_yticks(place, [r["method"] for r in table])
    axis.set(
        xlabel="posterior variance ÷ truth: mean and range over 20 coordinates",
        title="Metric and drift from one mini-batch, or from two",
    )
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
