"""How long must a metric stand still? Bias against the freeze interval, on N(0, 1) with D = 1/(λ + |g|), λ = 0.1.

The first open question of Rensmeyer & Niggemann (2024). τ is the window in units of time, window × h; relaxation
takes about a unit. Taken at the window's start (`point`) the bias falls like 1/τ, averaged over the window before
(`mean`) like 1/τ², from the window before last (`delayed`) exponentially. A moving average of memory τ = h/(1 − β)
is beside them. Every step is counted. h = 5e-4, chains from exact draws; what Euler's step and the finite run leave
is about 0.004.
"""

from __future__ import annotations

import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from langevin.audit import bins
from langevin.core import noise
from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.result import Result
from langevin.core.target import Density
from langevin.dynamics.metrics.windowed import Windowed
from langevin.samplers.psgld import PSGLD
from langevin.samplers.riemannian import Riemannian

STEP, FLOOR = 5e-4, 0.1
METHODS = {
    "point": dict(statistic="point", delay=0),
    "mean": dict(statistic="mean", delay=0),
    "point, delayed": dict(statistic="point", delay=1),
    "mean, delayed": dict(statistic="mean", delay=1),
}
BARS = {
    "tv_point_2": "> 0.04 (notes: 0.048)",
    "tv_mean_delayed_2": "< 0.005 + 0.004",
    "tv_point_delayed_4": "at the floor",
}


def normal(x):
    """log N(0, 1) up to a constant."""
    return -0.5 * jnp.sum(x**2)


def measure(key, kernel, chains: int, length: float) -> float:
    """Total variation over a run of `length` units of time, its first third left out."""
    target, thin = Density(normal), 20
    k_start, k_init, k_run = jax.random.split(key, 3)
    states = begin_all(k_init, kernel, target, jax.random.normal(k_start, (chains, 1)))
    draws = int(length / STEP / thin)
    run = advance(k_run, kernel, target, states, length=draws, thin=thin, layout="vmap", n=np.int32(draws))
    return bins.tv(bins.counts(np.asarray(run.kept)[:, draws // 3 :]), bins.NORMAL)


def run(size: str, seed: int) -> Result:
    chains, spans = (2048, (0.1, 0.3, 1, 2, 4, 8, 16)) if size != "quick" else (256, (0.3, 2.0))
    figures: dict[str, float] = {}
    table: list[dict] = []
    key = noise.key(seed, impl="hash")
    for span in spans:
        length = max(15.0, 9.0 * span)
        for name, settings in METHODS.items():
            metric = Windowed(FLOOR, round(span / STEP), "li", **settings)
            tv = measure(jax.random.fold_in(key, len(table)), Riemannian(STEP, metric=metric), chains, length)
            table.append(dict(method=name, window=span, tv_target=tv))
            figures[f"tv_{name.replace(', ', '_')}_{span:g}"] = tv
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            moving = PSGLD(STEP, floor=FLOOR, form="li", decay=1 - STEP / span, correction="none")
        tv = measure(jax.random.fold_in(key, len(table)), moving, chains, length)
        table.append(dict(method="moving average", window=span, tv_target=tv))
        figures[f"tv_moving_{span:g}"] = tv
    result = Result("adaptive-freeze", figures, table, BARS)
    result.drawing = partial(draw, table)
    return result


def draw(table, path: str) -> None:
    """Total variation against the window."""
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    inks = ("#c8553d", "#e09f3e", "#6a994e", "#2a6f97", "#8a939b")
    colours = dict(zip((*METHODS, "moving average"), inks, strict=True))
    figure, axis = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name, colour in colours.items():
        rows = [r for r in table if r["method"] == name]
        x, y = [r["window"] for r in rows], [r["tv_target"] for r in rows]
        axis.plot(x, y, marker="o", color=colour, label=name, ls="--" if name == "moving average" else "-")
    axis.axhspan(0, 0.005, color="0.93", lw=0)
    axis.annotate("step size and sampling error", (table[0]["window"], 0.0042), fontsize=9, color="0.4")
    axis.set(
        xlabel="window, or memory, in relaxation times",
        ylabel="total variation to the target",
        title="How long must a metric stand still?",
        ylim=(0.0015, 0.4),
        xscale="log",
        yscale="log",
    )
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
