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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm

from langevin.baselines.published_smile import PublishedSMILE, Quantiles
from langevin.core import noise
from langevin.core.kernel import PerChain, spread
from langevin.core.posterior import Posterior, sample
from langevin.core.record import replace
from langevin.core.result import Result
from langevin.core.run import begin_all
from langevin.core.types import Key, PyTree
from langevin.data import parts, tables
from langevin.diagnostics import convergence
from langevin.nets.bnn import BNN, bnn
from langevin.nets.mlp import MLP
from langevin.samplers.mclmc import MCLMC
from langevin.samplers.psgld import PSGLD
from langevin.samplers.sghmc import SGHMC
from langevin.samplers.sgld import SGLD
from langevin.samplers.smile import SMILE
from langevin.samplers.wrappers.cyclical import Cyclical
from langevin.tune.mclmc import tune_mclmc
from langevin.tune.metric_floor import metric_floor
from langevin.tune.mile_warmup import mile_warmup
from langevin.tune.warm_start import HeldOut, warm_start
from langevin.tune.whiten import whiten

TABLES = ("airfoil", "bikesharing", "concrete", "energy", "yacht")
BATCH, LEVELS = 256, np.linspace(0.1, 0.9, 9)
KEPT = 6  # one part in six of the steps is kept


class Size(NamedTuple):
    """splits, seeds, members of an ensemble, gradients a chain may take on batches, and draws kept of it."""

    splits: int
    seeds: int
    members: int
    gradients: int
    draws: int


SIZES = {"quick": Size(1, 1, 2, 600, 10), "cpu": Size(1, 1, 4, 12_000, 100), "gpu": Size(3, 3, 10, 60_000, 250)}


class Work(NamedTuple):
    """What a method is given: target, starts (chain, …), a step size a chain, gradients to spend, draws to keep."""

    target: Any
    starts: PyTree
    steps: jax.Array
    gradients: int
    draws: int

    @property
    def chains(self) -> int:
        return len(self.steps)


class Method(NamedTuple):
    """go: (key, work) → the posterior and the examples looked at by a chain while tuning; grid: of step sizes."""

    go: Callable[[Key, Work], tuple[Posterior, float]]
    grid: tuple[float, ...] = (0.0,)


def methods() -> dict[str, Method]:
    """In the order of the table; some warn of their law when they are made."""
    published = lambda scaled: partial(_published, PublishedSMILE(tuner=Quantiles(scaled=scaled)))
    return {
        "mile": Method(_mile),
        "smile, published": Method(published(False), (3e-4, 1e-3, 3e-3, 1e-2)),
        "psmile, published": Method(published(True), (3e-4, 1e-3, 3e-3, 1e-2)),
        "ours": Method(_ours),
        "ours, all data": Method(_all_data),
        "sgld": Method(partial(_stochastic, SGLD(1e-5), 1.0), (1e-6, 4e-6, 1.6e-5, 6.4e-5)),
        "sghmc": Method(partial(_stochastic, SGHMC(1e-3, friction=10.0), 1.0), (3e-4, 1e-3, 3e-3, 1e-2)),
        "csghmc": Method(partial(_cyclical, SGHMC(1e-3, friction=10.0)), (3e-4, 1e-3, 3e-3, 1e-2)),
        "psgld, no Γ": Method(partial(_floored, PSGLD(1e-3, correction="none"), 1.0), (1e-4, 4e-4, 1.6e-3, 6.4e-3)),
        "psgld, Γ": Method(partial(_floored, PSGLD(1e-3), 1.25), (1e-4, 4e-4, 1.6e-3, 6.4e-3)),
    }


# --- methods ----------------------------------------------------------------------------------------------------


def _drawn(key: Key, kernel: Any, work: Work, states: Any, steps: int, *, warm: int = KEPT - 1):
    """`steps` steps, of which the last 1/(warm + 1) give the draws, and the examples that those before them looked at.

    Every step of a kernel costs as many.
    """
    thin = max(steps // ((warm + 1) * work.draws), 1)
    posterior = sample(
        key, kernel, work.target, states,
        draws=work.draws, warmup=warm * work.draws, thin=thin, chunk=work.draws,
    )  # fmt: skip
    return posterior, warm * posterior.provenance.n_data / work.chains


def _stochastic(kernel, cost: float, key: Key, work: Work):
    """One chain a step size; cost: gradients on a batch that a step takes."""
    each = PerChain(replace(spread(kernel, work.chains), step_size=work.steps))
    return _drawn(key, each, work, work.starts, int(work.gradients / cost))


def _published(kernel, key: Key, work: Work):
    return _stochastic(kernel, 2.0, key, work._replace(target=replace(work.target, order="epoch")))


def _cyclical(kernel, key: Key, work: Work):
    """Four cycles over all steps, each with a stretch of draws at its end."""
    thin = max(work.gradients // (4 * work.draws), 1)
    period = thin * work.draws
    each = spread(Cyclical(kernel, period=period, exploration=0.8), work.chains)
    each = PerChain(replace(each, step_size=work.steps))
    return sample(key, each, work.target, work.starts, draws=4 * work.draws, thin=thin, chunk=work.draws), 0.0


def _floored(kernel, cost: float, key: Key, work: Work):
    """Floors are found at the middle step size, once for all."""
    k_init, k_floor, k_run = jax.random.split(key, 3)
    probe = replace(kernel, step_size=float(jnp.median(work.steps)) / 4)
    states = begin_all(k_init, probe, work.target, work.starts)
    tuned, _ = metric_floor(k_floor, probe, work.target, states, share=0.5)
    posterior, before = _stochastic(tuned, cost, k_run, work)
    return posterior, before + 421 * cost * work.target.batch


def _mile(key: Key, work: Work):
    """MILE as published: full batches, McLachlan's integrator, ε and L by the energy error, as many steps as SMILE."""
    k_init, k_tune, k_run = jax.random.split(key, 3)
    work = work._replace(target=replace(work.target, batch=None))
    steps = work.gradients // 2
    warm = steps - steps // KEPT
    d = sum(u[0].size for u in jax.tree.leaves(work.starts))
    kernel = MCLMC(0.01, length=max(float(np.sqrt(d)), 15.0))
    states = begin_all(k_init, kernel, work.target, work.starts)
    tune = partial(tune_mclmc, variance=(0.5, 0.1), trust=1.5, memory=100, share=(0.8, 0.1, 0.1), per_chain=True)
    kernel, states = tune(k_tune, kernel, work.target, states, steps=warm)
    posterior, _ = _drawn(k_run, kernel, work, states, steps // KEPT, warm=0)
    return posterior, 2.0 * warm * work.target.n


def _passes(work: Work) -> float:
    """Over all data, that ours may take."""
    return work.gradients * min(work.target.batch / work.target.n, 0.25)


def _ours(key: Key, work: Work):
    """Half the gradients to tune (a step of which takes 1.25), half to run, a third of those kept."""
    k_init, k_tune, k_run = jax.random.split(key, 3)
    half = 0.5 * _passes(work) * work.target.n / work.target.batch
    states = begin_all(k_init, SMILE(0.05), work.target, work.starts)
    kernel, states = whiten(k_tune, SMILE(0.05), work.target, states, steps=int(half / 1.25), damping=1000.0)
    posterior, before = _drawn(k_run, kernel, work, states, int(half), warm=2)
    return posterior, before + half * work.target.batch


def _all_data(key: Key, work: Work):
    """Full gradients, three fifths of them to settle and two fifths to run, half of those kept."""
    k_init, k_tune, k_run = jax.random.split(key, 3)
    passes, work = _passes(work), work._replace(target=replace(work.target, batch=None))
    kernel: Any = MCLMC(0.05, length=25.0, integrator="verlet")
    states = begin_all(k_init, kernel, work.target, work.starts)
    rounds = int(np.clip(0.6 * passes / 200, 4, 40))
    steps = int(passes - rounds * 256 / work.target.n)  # a metric takes the gradients of 256 examples
    each = int(0.6 * steps / rounds)
    kernel, states = mile_warmup(k_tune, kernel, work.target, states, rounds=rounds, steps=each)
    posterior, before = _drawn(k_run, kernel, work, states, steps - rounds * each, warm=1)
    return posterior, before + rounds * (each * work.target.n + 256.0)


# --- protocol ---------------------------------------------------------------------------------------------------


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
