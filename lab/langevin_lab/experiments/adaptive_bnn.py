"""Does Γ matter for a network? A Bayesian MLP d-16-1 on a UCI table, every sampler against long HMC chains.

Tanh units, N(0, 1) priors, learned noise level; three splits of 80 % to train, 10 % to choose each sampler's step
size by (on NLL, from three), 10 % to judge. Chains start at a deep ensemble; mini-batches of 64; every sampler has
the same number of steps. `variance_ratio` is the variance of the predicted mean over draws (what the network does
not know) over HMC's, averaged over test rows as exp mean log; `calibration` is the mean |stated − found| coverage
over levels. The table is the red wines of wine_quality if LANGEVIN_DATA holds them (noisy enough for HMC to mix),
else scikit-learn's diabetes.
"""

from __future__ import annotations

import dataclasses
import warnings
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import noise
from langevin.core.begin import begin_all
from langevin.core.posterior import sample
from langevin.core.record import replace
from langevin.core.result import Result
from langevin.data import parts, tables
from langevin.diagnostics import calibration, convergence
from langevin.dynamics.metrics.windowed import Windowed
from langevin.dynamics.riemann import Riemann
from langevin.nets.bnn import bnn
from langevin.nets.mlp import MLP
from langevin.samplers.adaptive_friction import AdaptiveFriction
from langevin.samplers.hmc import HMC
from langevin.samplers.psgld import PSGLD
from langevin.samplers.riemannian import Riemannian
from langevin.samplers.sgld import SGLD
from langevin.tune.metric_floor import metric_floor
from langevin.tune.warm_start import HeldOut, warm_start
from langevin.tune.window import window

LEVELS = np.linspace(0.1, 0.9, 9)
STEPS = (0.25, 1.0, 4.0)  # factors on each sampler's own scale of h, one of which validation chooses


def samplers() -> dict[str, Any]:
    """Each sampler at the middle of its step sizes; those with a floor have it tuned."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "sgld": SGLD(2e-5),
            "psgld, as published": PSGLD(2e-3, form="li", decay=0.99, correction="none"),
            "psgld, same batch, no Γ": PSGLD(2e-3, correction="none"),
            "psgld, own batch, no Γ": PSGLD(2e-3, correction="none", metric_batch=1 / 8),
            "psgld, own batch, Γ": PSGLD(2e-3),
            "delayed window": Riemannian(2e-3, metric=Windowed(window=2000)),
            "friction": AdaptiveFriction(4e-3, friction=0.1),
        }


def run(size: str, seed: int, *, data: str | None = None) -> Result:
    splits, chains, draws, thin = {"quick": (1, 4, 50, 20), "cpu": (3, 8, 250, 80), "gpu": (3, 8, 250, 320)}[size]
    table, notes = _table(data)
    rows: list[dict] = []
    for split in range(splits):
        rows += _split(table, seed + split, chains, draws, thin, size)
    names = list(dict.fromkeys(r["method"] for r in rows))
    columns = [c for c in rows[0] if c not in ("method", "split", "step_size")]
    mean = [
        dict(method=n) | {c: float(np.mean([r[c] for r in rows if r["method"] == n and c in r])) for c in columns}
        for n in names
    ]
    short = {
        "psgld, same batch, no Γ": "psgld_same",
        "psgld, own batch, Γ": "psgld_corrected",
        "sgld": "sgld",
        "hmc": "hmc",
    }
    figures = {
        f"{column}_{short[r['method']]}": r[column]
        for r in mean
        if r["method"] in short
        for column in ("nll", "calibration", "variance_ratio")
    }
    result = Result("adaptive-bnn", figures, rows + [dict(r, split="mean") for r in mean], notes=notes)
    result.drawing = partial(draw, mean, table.name)
    return result


def _table(data: str | None):
    if data is not None:
        return tables.load(data, task="regression"), []
    try:
        return tables.load("wine_quality_red", task="regression"), []
    except (ValueError, FileNotFoundError):
        return tables.load("diabetes"), [
            "LANGEVIN_DATA does not hold wine_quality_red: this is scikit-learn's diabetes."
        ]


def _split(table, seed: int, chains: int, draws: int, thin: int, size: str) -> list[dict]:
    train, validation, test = parts.split(len(table.X), seed, (0.8, 0.1, 0.1))
    X, Y = table.X, table.y[:, :1] if table.y.ndim > 1 else table.y[:, None]
    x = np.asarray(parts.Standard.fit(X[train]).apply(X), np.float32)
    y = np.asarray(parts.Standard.fit(Y[train]).apply(Y)[:, 0], np.float32)
    model = bnn(partial(MLP, (x.shape[1], 16, 1), activation=jnp.tanh), (x[train], y[train]), batch=64)
    keys = iter(jax.random.split(noise.key(seed), 64))
    score = HeldOut(model.target.log_likelihood, (jnp.asarray(x[validation]), jnp.asarray(y[validation])))
    start = warm_start(next(keys), model.target, model.starts(next(keys), chains), steps=2000, score=score)

    exact, leapfrog = replace(model.target, batch=None), HMC(0.01, n_leapfrog=60)
    states = begin_all(next(keys), leapfrog, exact, start)
    leapfrog, states = window(next(keys), leapfrog, exact, states, steps=40 if size == "quick" else 300)
    long = sample(next(keys), leapfrog, exact, states, draws=draws if size == "quick" else 3 * draws, chunk=50)
    truth = long.predict(model.predict, x[test])
    rows = [dict(method="hmc", split=seed, step_size=float(leapfrog.step_size), **_scores(y[test], truth, truth))]

    for name, kernel in samplers().items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            states = begin_all(next(keys), kernel, model.target, start)
            if isinstance(kernel, Riemann) or "floor" in {f.name for f in dataclasses.fields(kernel)}:
                kernel, states = _floored(next(keys), kernel, model.target, states)
            best = None
            k_runs = jax.random.split(next(keys), len(STEPS))
            for factor, k in zip(STEPS, k_runs, strict=True):
                tried = replace(kernel, step_size=float(kernel.step_size) * factor)
                go = dict(draws=draws, warmup=draws // 2, thin=thin, chunk=50)
                posterior = sample(k, tried, model.target, states, **go)
                if not np.asarray(posterior.info.ok).all():
                    continue
                held = _nll(y[validation], posterior.predict(model.predict, x[validation]))
                if best is None or held < best[0]:
                    best = held, tried, posterior
        if best is None:
            continue
        said = best[2].predict(model.predict, x[test])
        rows.append(dict(method=name, split=seed, step_size=float(best[1].step_size), **_scores(y[test], said, truth)))
    return rows


def _floored(key, kernel, target, states):
    """λ from the gradients the chains meet: by the tuner where it fits, else the same rule by PSGLD's looks."""
    if isinstance(kernel, Riemann):
        return metric_floor(key, kernel, target, states, share=0.5)
    k_init, k_tune = jax.random.split(key)
    looker = PSGLD(1e-3, correction="hk2")
    tuned, _ = metric_floor(k_tune, looker, target, begin_all(k_init, looker, target, states.position), share=0.5)
    return replace(kernel, floor=tuned.floor), states


def _nll(y, said) -> float:
    flat = {k: v.reshape(-1, v.shape[-1]) for k, v in said.items()}
    return calibration.nll_gaussian(y, flat["mean"], flat["std"])


def _scores(y, said, truth) -> dict[str, float]:
    flat = {k: v.reshape(-1, v.shape[-1]) for k, v in said.items()}
    lower, upper = calibration.intervals(flat["mean"], flat["std"], LEVELS)
    found = np.array([np.mean((y >= a) & (y <= b)) for a, b in zip(lower, upper, strict=True)])
    epistemic = lambda p: p["mean"].reshape(-1, p["mean"].shape[-1]).var(0)
    checked = convergence.diagnose({"predictions": said["mean"]}, None)
    return dict(
        nll=_nll(y, said),
        rmse=calibration.rmse(y, flat["mean"].mean(0)),
        calibration=float(np.abs(found - LEVELS).mean()),
        coverage90=float(found[-1]),
        variance_ratio=float(np.exp(np.mean(np.log(epistemic(said) / epistemic(truth))))),
        rhat=float(np.max(checked.rhat["predictions"])),
    )


def draw(mean, name: str, path: str) -> None:
    """NLL, calibration and epistemic variance of every sampler."""
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.8), sharey=True, layout="constrained")
    place = np.arange(len(mean))[::-1]
    titles = {
        "nll": "test NLL",
        "calibration": "mean error of coverage",
        "variance_ratio": "epistemic variance ÷ HMC's",
    }
    for axis, (column, title) in zip(axes, titles.items(), strict=True):
        values = np.array([r[column] for r in mean])
        axis.hlines(place, values.min() if column == "nll" else 0, values, color="0.85", lw=2)
        axis.scatter(values, place, color=["#22303c" if r["method"] == "hmc" else "#2a6f97" for r in mean], zorder=3)
        for v, p in zip(values, place, strict=True):
            axis.annotate(
                f"{v:.4g}" if column == "nll" else f"{v:.2g}",
                (v, p),
                xytext=(7, -3),
                textcoords="offset points",
                fontsize=9,
            )
        axis.axvline(values[0], color="#22303c", lw=1, ls="--")
        axis.set(title=title)
        axis.margins(x=0.18)
        axis.locator_params(axis="x", nbins=5)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(place, [r["method"] for r in mean])
    figure.suptitle(f"A Bayesian network on {name}: mean of the splits; dashed: HMC", fontsize=11)
    figure.savefig(path, dpi=150)
    plt.close(figure)
