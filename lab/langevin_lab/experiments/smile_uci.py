"""Can microcanonical chains live on mini-batches? Every sampler on five UCI tables at equal cost.

A net d-16-16-16-1 of ReLU units with N(0, 1) priors and one learned noise level, on standardised data; 70 % to train,
10 % to stop the ascent and to choose step sizes by, 20 % to judge; three splits, three seeds. The ten members of a deep
ensemble (AdamW, early stopping) are the starts of ten chains, whose draws are pooled. The published form of SMILE takes
30,000 steps of two gradients on 256 examples, the first 25,000 of them not kept (half its paper's lengths); every other
method has as many gradients of single examples (`data_passes` counts them, tuning included, the ascent not), but MILE,
which looks at all data in each of as many steps.

Methods with a step size have a grid of four, of which the LPPD of the validation part chooses, for every seed anew. All
step sizes and seeds run at once as chains of one program, so `seconds` are those of a row's split and method; in a
table's first split methods compile side by side, in the others they run one after the other. `lppd` is the mean log
density of test targets under the pooled mixture, in units of standardised targets; `calibration` the mean |stated −
found| coverage over levels; `ess_per_1000_grad` the bulk effective draws of a test prediction (median over rows) for
1000 gradients, those not kept not counted; `diverged` counts chains, which are left out.

"ours" is SMILE corrected, tuned by `whiten`; "ours, all data" spends the same examples on full gradients, in a metric
of the stiffest directions (`mile_warmup`), which is the plan "mile". Both stop at a quarter of the passes of MILE.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm

from langevin.core import noise
from langevin.core.record import replace
from langevin.core.result import Result
from langevin.core.types import Key, PyTree
from langevin.data import parts, tables
from langevin.diagnostics import convergence
from langevin.nets.bnn import BNN, bnn
from langevin.nets.mlp import MLP
from langevin.tune.warm_start import HeldOut, warm_start
from langevin_lab.experiments._uci_methods import Method, Work, methods

TABLES = ("airfoil", "bikesharing", "concrete", "energy", "yacht")
BATCH, LEVELS = 256, np.linspace(0.1, 0.9, 9)


class Size(NamedTuple):
    """splits, seeds, members of an ensemble, gradients a chain may take on batches, and draws kept of it."""

    splits: int
    seeds: int
    members: int
    gradients: int
    draws: int


SIZES = {"quick": Size(1, 1, 2, 600, 10), "cpu": Size(1, 1, 4, 12_000, 100), "gpu": Size(3, 3, 10, 60_000, 250)}


def run(size: str, seed: int, *, data: str | None = None) -> Result:
    shape, names = SIZES[size], TABLES if data is None else (data,)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [
            row
            for name in names
            for split in range(shape.splits)
            for row in _split(name, seed + split, shape, together=1 if split else max((os.cpu_count() or 1) // 2, 1))
        ]
    result = Result("smile-uci", _figures(rows), rows, bars=_bars(rows), notes=["No MFVI and no Laplace yet."])
    result.drawing = partial(draw, rows)
    return result


def _split(name: str, split: int, size: Size, together: int) -> list[dict]:
    """The rows of all methods on one split of one table, so many at a time."""
    model, parts = prepared(name, split)
    k_start, k_ascent, *keys = jax.random.split(noise.key(split), 2 + len(methods()))
    began = time.perf_counter()
    start = _ensemble(k_ascent, model, parts["validation"], model.starts(k_start, size.seeds * size.members))
    ended = time.perf_counter() - began
    scores = lambda part, pooled, weights: {
        k: float(v) for k, v in judged(model.predict, pooled, weights, *parts[part]).items()
    }
    grouped = jax.tree.map(lambda u: u.reshape(size.seeds, size.members, *u.shape[1:]), start)
    row = dict(data=name, split=split)
    rows = []
    for s in range(size.seeds):
        members = jax.tree.map(lambda u: u[s], grouped)
        found = scores("test", members, np.ones(size.members))
        rows.append(row | dict(seed=s, method="deep ensemble", **found, seconds=ended, data_passes=0.0, diverged=0))
    go = lambda key, method, way: _rows(key, method, way, model, parts, start, size, scores)
    with ThreadPoolExecutor(together) as pool:
        every = list(pool.map(go, keys, *zip(*methods().items(), strict=True)))
    return rows + [row | r for each in every for r in each]


def _rows(key, method: str, way: Method, model: BNN, parts, start, size: Size, scores) -> list[dict]:
    """One row a seed: all step sizes run, the best on the validation part judged."""
    tries, each = len(way.grid), size.seeds * size.members
    began = time.perf_counter()
    tiled = jax.tree.map(lambda u: jnp.tile(u, (tries, *([1] * (u.ndim - 1)))), start)
    work = Work(model.target, tiled, jnp.repeat(jnp.asarray(way.grid), each), size.gradients, size.draws)
    posterior, tuning = way.go(key, work)
    seconds = time.perf_counter() - began
    looked = posterior.provenance.n_data / work.chains + tuning
    fold = lambda u: np.asarray(u).reshape(tries, size.seeds, size.members, *np.shape(u)[1:])
    draws, ok = jax.tree.map(fold, posterior.draws), np.asarray(fold(posterior.info.ok).all(-1))
    weight = np.where(ok[..., None], np.exp(fold(posterior.info.log_weight)), 0.0)
    grads = fold(posterior.info.n_grad).sum((2, 3))
    rows = []
    for s in range(size.seeds):
        pool = lambda t: (jax.tree.map(lambda u: u[t, s].reshape(-1, *u.shape[4:]), draws), weight[t, s].reshape(-1))
        held = [scores("validation", *pool(t))["lppd"] if ok[t, s].any() else -np.inf for t in range(tries)]
        best = int(np.argmax(np.nan_to_num(held, nan=-np.inf)))
        found = scores("test", *pool(best))
        chain = jax.tree.map(lambda u: u[best, s][ok[best, s]], draws)
        effective = _effective(model, chain, weight[best, s][ok[best, s]], parts["test"][0][:16])
        found["ess_per_1000_grad"] = 1000 * effective / max(grads[best, s], 1)
        cost = dict(seconds=seconds, data_passes=looked / model.target.n, diverged=int((~ok[best, s]).sum()))
        rows.append(dict(seed=s, method=method, step_size=way.grid[best] or None, **found, **cost))
        line = f"{method} seed {s}: validation {np.round(held, 3)}, test {found['lppd']:.3f}, {seconds:.0f} s"
        print(line, file=sys.stderr, flush=True)
    return rows


def prepared(name: str, split: int) -> tuple[BNN, dict[str, tuple]]:
    """The network on the training part, and (x, y) of the two others, all standardised."""
    table = tables.load(name, task="regression")
    train, *rest = parts.split(len(table.X), split, (0.7, 0.1, 0.2))
    Y = table.y[:, None]
    x = np.asarray(parts.Standard.fit(table.X[train]).apply(table.X), np.float32)
    y = np.asarray(parts.Standard.fit(Y[train]).apply(Y)[:, 0], np.float32)
    net = partial(MLP, (x.shape[1], 16, 16, 16, 1))
    model = bnn(net, (x[train], y[train]), batch=min(BATCH, len(train) // 2 * 2))
    return model, {k: (jnp.asarray(x[i]), jnp.asarray(y[i])) for k, i in zip(("validation", "test"), rest, strict=True)}


def _ensemble(key: Key, model: BNN, validation, starts: PyTree) -> PyTree:
    """At most 200 epochs of AdamW on batches of 64; every member is kept where it did best."""
    epoch = -(-model.target.n // 64)
    score = HeldOut(model.target.log_likelihood, validation)
    go = dict(optimizer=optax.adamw(1e-2, weight_decay=5e-3), score=score, patience=10)
    return warm_start(key, replace(model.target, batch=64, order="epoch"), starts, steps=200 * epoch, chunk=epoch, **go)


@jax.jit
def judged(predict, pooled: PyTree, weights, x, y) -> dict[str, jax.Array]:
    """Scores of the mixture of pooled draws (draw, …) with these weights."""
    said = lax.map(lambda p: predict(p, x), pooled, batch_size=64)
    mean, std = said["mean"], said["std"]
    w = (weights / jnp.sum(weights))[:, None]
    off = lambda v: jnp.sum(jnp.where(w > 0, w * v, 0.0), 0)  # a draw without weight may be NaN
    log_w = jnp.log(jnp.maximum(w, 1e-38))
    log_density = jnp.where(w > 0, norm.logpdf(y[None], mean, std) + log_w, -jnp.inf)
    pit = off(norm.cdf(y[None], mean, std))
    inside = lambda level: jnp.mean(jnp.abs(pit - 0.5) <= level / 2)
    found = jnp.stack([inside(level) for level in LEVELS])
    return dict(
        lppd=jnp.mean(logsumexp(log_density, axis=0)),
        rmse=jnp.sqrt(jnp.mean((off(mean) - y) ** 2)),
        coverage90=found[-1],
        calibration=jnp.mean(jnp.abs(found - LEVELS)),
    )


def _effective(model: BNN, chains: PyTree, weights: np.ndarray, x) -> float:
    """Bulk effective draws of the predictions of a few rows, the median over them."""
    kept = weights[0] > 0
    if not len(weights) or kept.sum() < 8:
        return 0.0
    said = jax.vmap(lambda chain: lax.map(lambda p: model.predict(p, x)["mean"], chain, batch_size=64))(chains)
    return float(np.median(convergence.ess(np.asarray(said)[:, kept])))


def _mean(rows: list[dict], name: str, method: str, column: str) -> float:
    return float(np.mean([r[column] for r in rows if r["data"] == name and r["method"] == method]))


def _figures(rows: list[dict]) -> dict[str, float]:
    """Mean LPPD of every method, and the differences that are asked for."""
    names = list(dict.fromkeys(r["data"] for r in rows))
    short = {
        m: m.replace(", ", "_").replace(" ", "_").replace("Γ", "gamma")
        for m in dict.fromkeys(r["method"] for r in rows)
    }
    mean = partial(_mean, rows)
    figures = {f"lppd_{name}_{short[m]}": mean(name, m, "lppd") for name in names for m in short}
    for ours in ("ours", "ours, all data"):
        gain = lambda other: np.array([mean(n, ours, "lppd") - mean(n, other, "lppd") for n in names])
        share = max(mean(n, ours, "data_passes") / mean(n, "mile", "data_passes") for n in names)
        figures[f"better_than_psmile_{short[ours]}"] = float(np.mean(gain("psmile, published") > 0))
        figures[f"least_over_ensemble_{short[ours]}"] = float(gain("deep ensemble").min())
        figures[f"least_over_mile_{short[ours]}"] = float(gain("mile").min())
        figures[f"most_passes_over_mile_{short[ours]}"] = share
    return figures


def _bars(rows: list[dict]) -> dict[str, str]:
    bars = dict(
        better_than_psmile="≥ 0.8", least_over_ensemble="≥ 0", least_over_mile="≥ −0.05", most_passes_over_mile="≤ 0.25"
    )
    return {f"{k}_{ours}": bar for ours in ("ours", "ours_all_data") for k, bar in bars.items()}


def draw(rows: list[dict], path: str) -> None:
    """LPPD of every method and table, over the deep ensemble's."""
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    names = list(dict.fromkeys(r["data"] for r in rows))
    ways = [m for m in dict.fromkeys(r["method"] for r in rows) if m != "deep ensemble"]
    figure, axes = plt.subplots(
        1, len(names), figsize=(2 + 2.6 * len(names), 4.2), sharey=True, layout="constrained", squeeze=False
    )
    place = np.arange(len(ways))[::-1]
    for axis, name in zip(axes[0], names, strict=True):
        base = {
            (r["split"], r["seed"]): r["lppd"] for r in rows if r["data"] == name and r["method"] == "deep ensemble"
        }
        for p, m in zip(place, ways, strict=True):
            gains = [r["lppd"] - base[r["split"], r["seed"]] for r in rows if r["data"] == name and r["method"] == m]
            colour = "#d1495b" if m.startswith("ours") else "#2a6f97"
            axis.scatter(gains, np.full(len(gains), p), s=12, color=colour, alpha=0.4, lw=0)
            axis.scatter(np.mean(gains), p, s=46, color=colour, zorder=3)
        axis.axvline(0, color="#22303c", lw=1, ls="--")
        axis.set(title=name)
        axis.locator_params(axis="x", nbins=5)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_yticks(place, ways)
    figure.supxlabel("test LPPD over the deep ensemble's (large: mean; small: every split and seed)", fontsize=10)
    figure.savefig(path, dpi=150)
    plt.close(figure)
