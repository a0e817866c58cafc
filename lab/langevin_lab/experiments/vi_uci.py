"""Variational inference beside sampling on five UCI tables: the twenty published splits, one net, one start.

A net d-50-2 of ReLU units whose outputs are mean and standard deviation, N(0, ½²) priors, on standardized data, as deep
ensembles have it. The published splits (90 % to train); a tenth of the training rows stops the training early. Five
networks are trained (Adam), and every method begins with these: its own fit or sampler, then the mixture over the five.
`log_likelihood` is the mean log density of test targets under the pooled mixture and `rmse` the error of its mean, both
in units of the target; each with the standard error over splits. `seconds` are those of training and method together,
the median over splits, of which all but the first of each process have their programs compiled; `over_ensemble` is
their ratio to training alone.

Rates and lengths of methods and training were chosen by the last fifth of the training rows of the first splits, with
fits to the rest (`validate`), the same for all tables but dropout's rate; they were chosen before test rows were looked
at, but for an earlier form of this comparison on yacht and wine (two splits), whose flows had diverged.

Published rows, from the papers that are named in `PUBLISHED`, have their own nets, priors and lengths.

References
----------
Hernández-Lobato & Adams (2015), Probabilistic backpropagation for scalable learning of Bayesian neural networks.
Gal & Ghahramani (2016), Dropout as a Bayesian approximation, table 1.
Lakshminarayanan, Pritzel & Blundell (2017), Simple and scalable predictive uncertainty estimation, table 1.
Nado et al. (2021), Uncertainty baselines (baselines/uci: variational inference).
"""

from __future__ import annotations

import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from multiprocessing import get_context
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import noise
from langevin.core.posterior import Posterior
from langevin.core.result import Result
from langevin.data import parts, tables
from langevin.estimators.predictive import predicting
from langevin.nets.bnn import BNN, bnn
from langevin.nets.mlp import MLP
from langevin.tune.plan import Plan
from langevin.tune.warm_start import HeldOut
from langevin.vi.plans import PLANS
from langevin_lab.experiments._vi_methods import methods
from langevin_lab.experiments.smile_uci import judged

TABLES = ("boston", "concrete", "energy", "wine_quality_red", "yacht")
SPLITS = {"quick": 1, "cpu": 20, "gpu": 20}
MEMBERS, HIDDEN = 5, 50
VARIATIONAL = ("mfvi", "low rank", "matrix normal", "flow", "sivi", "ivon", "swag", "laplace", "dropout")
PUBLISHED: dict[str, dict[str, float]] = {
    "mfvi": dict(boston=-3.12, concrete=-3.22, energy=-0.93, wine_quality_red=-1.00, yacht=-2.01),
    "ensemble": dict(boston=-2.41, concrete=-3.06, energy=-1.38, wine_quality_red=-0.94, yacht=-1.18),
    "dropout": dict(boston=-2.40, concrete=-2.94, energy=-1.21, wine_quality_red=-0.93, yacht=-1.25),
}
CLOSE = 0.05  # nats


def prepared(name: str, split: int, *, inner: bool = False) -> tuple[BNN, HeldOut, tuple, float]:
    """The network on rows to fit, the score that stops training, (x, y) to judge by, and the scale of the target."""
    table = tables.load(name, task="regression")
    y = table.y if table.y.ndim == 1 else table.y[:, 0]
    train, test = parts.published_split(len(y), split)
    if inner:
        cut = int(0.8 * len(train))
        train, test = train[:cut], train[cut:]
    x = np.asarray(parts.Standard.fit(table.X[train]).apply(table.X), np.float32)
    scale = parts.Standard.fit(y[train])
    y = np.asarray(scale.apply(y), np.float32)
    cut = int(0.9 * len(train))
    fit, held = train[:cut], train[cut:]
    model = bnn(partial(MLP, (x.shape[1], HIDDEN, 2)), (x[fit], y[fit]), kind="heteroscedastic", prior=0.5)
    score = HeldOut(model.target.log_likelihood, (jnp.asarray(x[held]), jnp.asarray(y[held])))
    return model, score, (jnp.asarray(x[test]), jnp.asarray(y[test])), float(scale.scale)


def compared(name: str, split: int, plans: dict[str, Plan], *, inner: bool = False) -> list[dict[str, Any]]:
    """The rows of all methods on one split."""
    model, score, judge, scale = prepared(name, split, inner=inner)
    k_start, key = jax.random.split(noise.key(split))
    starts = model.starts(k_start, MEMBERS)
    began = time.perf_counter()
    trained = PLANS["ensemble"].trained(jax.random.clone(key), model.target, starts, score=score)
    training = time.perf_counter() - began
    rows = []
    for method, plan in plans.items():
        began, note = time.perf_counter(), {}
        try:
            posterior = plan.sampled(jax.random.clone(key), model.target, trained)
            found = scores(model, posterior, judge, scale)
        except (FloatingPointError, ValueError, RuntimeError) as error:
            found, note = dict(log_likelihood=np.nan, rmse=np.nan), dict(note=str(error))
        seconds = training + time.perf_counter() - began
        rows.append(dict(data=name, split=split, method=method, **found, seconds=seconds, **note))
    return rows


def scores(model: BNN, posterior: Posterior, judge: tuple, scale: float) -> dict[str, float]:
    """In units of the target."""
    weights = posterior.weights().reshape(-1)
    pooled = jax.tree.map(lambda u: np.asarray(u).reshape(-1, *u.shape[2:]), predicting(posterior).draws)
    found = judged(model.predict, pooled, weights, *judge)
    lost = dict(lost=len(posterior.diverged)) if posterior.diverged else {}
    return dict(
        log_likelihood=float(found["lppd"]) - float(np.log(scale)),
        rmse=float(found["rmse"]) * scale,
        coverage90=float(found["coverage90"]),
        **lost,
    )


def validate(plans: dict[str, Plan], names: tuple[str, ...] = TABLES, splits: int = 3) -> list[dict[str, Any]]:
    """The rows of plans on parts of training rows, by which settings are chosen."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [row for name in names for i in range(splits) for row in compared(name, i, plans, inner=True)]


def of_split(name: str, split: int, *, quick: bool) -> list[dict[str, Any]]:
    """The rows of one split, in a process of its own or not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compared(name, split, methods(name, quick=quick))


def run(size: str, seed: int, *, data: str | None = None) -> Result:
    names = TABLES if data is None else (data,)
    names = names if size != "quick" or data else ("yacht",)
    # processes, for two programs with decompositions in two threads of one can wait for each other for ever
    workers = 1 if size == "quick" or jax.default_backend() != "cpu" else os.cpu_count()
    splits = zip(*product(names, range(SPLITS[size])), strict=True)
    one = partial(of_split, quick=size == "quick")
    if workers == 1:
        found = list(map(one, *splits))
    else:
        with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
            found = list(pool.map(one, *splits))
    rows = [row for part in found for row in part]
    table = summed_up(rows, names)
    result = Result("vi-uci", figures(table, names), table, bars=bars(names))
    result.drawing = partial(draw, table, names)
    return result


def summed_up(rows: list[dict], names: tuple[str, ...]) -> list[dict[str, Any]]:
    """A row a table and method: means and standard errors over splits, beside what is published."""
    table = []
    for name in names:
        for method in dict.fromkeys(r["method"] for r in rows):
            own = [r for r in rows if r["data"] == name and r["method"] == method]
            row: dict[str, Any] = dict(data=name, method=method, splits=len(own))
            for k in ("log_likelihood", "rmse", "coverage90"):
                values = np.array([r.get(k, np.nan) for r in own])
                row[k] = float(values.mean())
                row[f"{k}_error"] = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
            row["median"] = float(np.median([r["log_likelihood"] for r in own]))
            row["seconds"] = float(np.median([r["seconds"] for r in own]))
            row["lost"] = sum(r.get("lost", 0) for r in own)
            if published := PUBLISHED.get(method, {}).get(name):
                row["published"] = published
            if notes := {r["note"] for r in own if "note" in r}:
                row["note"] = "; ".join(sorted(notes))
            table.append(row)
    for row in table:
        first = next(r for r in table if r["data"] == row["data"] and r["method"] == "ensemble")
        row["over_ensemble"] = row["seconds"] / first["seconds"]
    return table


def figures(table: list[dict], names: tuple[str, ...]) -> dict[str, float]:
    """Best variational family less `mile`, in how many tables it is close at twice the training time, and published."""
    found: dict[str, float] = {}
    at = lambda name, method: next(r for r in table if r["data"] == name and r["method"] == method)
    close = 0
    for name in names:
        mine = [at(name, m) for m in VARIATIONAL if any(r["method"] == m for r in table)]
        best = max((r for r in mine if r["over_ensemble"] <= 2), key=lambda r: r["log_likelihood"], default=None)
        if best is not None:
            found[f"best_less_mile_{name}"] = best["log_likelihood"] - at(name, "mile")["log_likelihood"]
            close += found[f"best_less_mile_{name}"] >= -CLOSE
    found["tables_close_to_mile"] = float(close)
    known = [r for r in table if "published" in r]
    fine = [r["log_likelihood"] + 2 * (r["log_likelihood_error"] or 0.0) >= r["published"] for r in known]
    found |= dict(published_rows_met=float(sum(fine)), published_rows=float(len(fine)))
    return found


def bars(names: tuple[str, ...]) -> dict[str, str]:
    return {"tables_close_to_mile": "≥ 4", "published_rows_met": "15"} if len(names) == len(TABLES) else {}


def draw(table: list[dict], names: tuple[str, ...], path: str) -> None:
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    figure, axes = plt.subplots(1, len(names), figsize=(3 * len(names), 4.6), layout="constrained", sharey=True)
    for axis, name in zip(np.atleast_1d(axes), names, strict=True):
        rows = [r for r in table if r["data"] == name][::-1]
        for i, row in enumerate(rows):
            colour = "#d1495b" if row["method"] in ("mile", "smile") else "#2a6f97"
            axis.errorbar(
                row["log_likelihood"], i, xerr=2 * (row["log_likelihood_error"] or 0), color=colour, fmt="o", ms=5
            )
            if "published" in row:
                axis.plot(
                    row["published"], i, "|", color="#22303c", ms=14, mew=2, label="published" if i == 0 else None
                )
        axis.set_yticks(range(len(rows)), [r["method"] for r in rows])
        low = min(r.get("published", r["log_likelihood"]) for r in rows)
        top = max(r["log_likelihood"] for r in rows)
        axis.set(title=name.replace("_", " "), xlabel="test log-likelihood", xlim=(max(low, top - 4) - 0.2, top + 0.3))
        axis.grid(axis="y", color="#e3e7ea", lw=0.8)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle("Twenty splits: mean ± 2 standard errors; bars: published", fontsize=11)
    figure.savefig(path, dpi=150)
    plt.close(figure)
