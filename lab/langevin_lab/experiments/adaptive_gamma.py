"""What each correction costs and what it leaves: every way to include Γ, on N(0, 1) and on two targets in 50-D.

The metric is D = (g² + λ²)^−½ with λ_i = 0.3 RMS(g_i), RMS from exact draws. Chains start at exact draws; the total
variation to the truth is pooled over the latents, each exactly N(0, 1), in bins of 0.1. `exact` needs 50 Hessian
products a step, so it has a quarter of the chains. `cost` is the time of a step over that of `none`, interleaved.
`constant` is the preconditioner 1/RMS that does not move: on the banana it is as accurate as anything, local
adaptivity does not always pay.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from langevin.audit import bins
from langevin.core import noise
from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.record import record
from langevin.core.result import Result, interleaved, ratio
from langevin.dynamics.metrics.diagonal import Fixed
from langevin.samplers.psgld import PSGLD
from langevin.samplers.riemannian import Riemannian
from langevin.targets.rotated import banana50, gaussian50
from langevin.targets.zoo import Gaussian

CORRECTIONS = ("constant", "none", "exact", "hutchinson", "rfd", "fixman", "hk2", "pec")
SHARE = 0.3
BARS = {
    "tv_gaussian50_none": "≥ 0.18",
    "tv_gaussian50_pec": "≤ 0.015",
    "tv_banana50_none": "≥ 0.25",
    "tv_banana50_pec": "≤ 0.02",
}


@record
class Latents:
    """Keep the latents of a draw.

    target: which has `latent`.
    """

    target: Any

    def __call__(self, state):
        return self.target.latent(state.position)


def kernels(target, h: float) -> dict[str, Any]:
    """Every correction at one step size, the floors measured on exact draws."""
    x = target.exact(noise.key(17, impl="hash"), 1 << 14)
    size = jnp.sqrt(jnp.mean(jax.vmap(jax.grad(target.log_density))(x) ** 2, axis=0))
    made: dict[str, Any] = {"constant": Riemannian(h, metric=Fixed(1.0 / size))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for correction in CORRECTIONS[1:]:
            made[correction] = PSGLD(h, floor=SHARE * size, correction=correction)
    return made


def measure(key, kernel, target, chains: int, draws: int, thin: int) -> float:
    """Total variation of the latents after a third of the run."""
    k_start, k_init, k_run = jax.random.split(key, 3)
    states = begin_all(k_init, kernel, target, target.exact(k_start, chains))
    total = np.zeros(len(bins.NORMAL), np.int64)
    for chunk in range(3):
        run = advance(
            jax.random.clone(k_run), kernel, target, states, length=draws // 3, thin=thin, collect=Latents(target)
        )
        states = run.states
        if chunk:
            total += bins.counts(run.kept)
    return bins.tv(total, bins.NORMAL)


def costs(target, made, steps: int, repeats: int) -> dict[str, float]:
    """Time of a step of 64 chains over that of `none`."""
    runs = {}
    for name, kernel in made.items():
        states = begin_all(noise.key(0, impl="hash"), kernel, target, target.exact(noise.key(1, impl="hash"), 64))
        runs[name] = lambda i, kernel=kernel, states=states: (
            advance(noise.key(i, impl="hash"), kernel, target, states, length=1, thin=steps).kept
        )
    seconds = interleaved(runs, repeats)
    return {name: ratio(seconds, name, "none") for name in made}


def run(size: str, seed: int) -> Result:
    # chains, draws, steps between draws: the slowest direction of the Gaussian relaxes in about 3,000 steps
    chains, draws = {"quick": (32, 60), "cpu": (256, 600), "gpu": (4096, 600)}[size]
    problems = {
        "normal": (Gaussian(np.zeros(1), np.ones(1)), 0.01, 32 * chains // 8, 20),
        "gaussian50": (gaussian50(), 0.005, chains, 40),
        "banana50": (banana50(), 0.005, chains, 40),
    }
    figures: dict[str, float] = {}
    table: list[dict] = []
    for problem, (target, h, width, thin) in problems.items():
        made = kernels(target, h)
        cost = costs(target, made, 20 if size == "quick" else 200, 3 if size == "quick" else 7)
        for name, kernel in made.items():
            expensive = name == "exact" and problem != "normal"
            k = jax.random.fold_in(noise.key(seed, impl="hash"), len(table))
            tv = measure(k, kernel, target, width // 4 if expensive else width, draws, thin)
            figures[f"tv_{problem}_{name}"] = tv
            table.append(dict(target=problem, correction=name, h=h, tv_target=tv, cost=cost[name]))
    result = Result("adaptive-gamma", figures, table, BARS)
    result.drawing = partial(draw, table)
    return result


def draw(table, path: str) -> None:
    """Bias of every correction, one panel a target, with the time of its step."""
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    red, blue, grey = "#c8553d", "#2a6f97", "#8a939b"
    titles = {"normal": "N(0, 1)", "gaussian50": "Gaussian, 50-D", "banana50": "Rotated bananas, 50-D"}
    place = {name: -i for i, name in enumerate(CORRECTIONS)}
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.8), sharey=True, layout="constrained")
    for axis, (problem, title) in zip(axes, titles.items(), strict=True):
        rows = [r for r in table if r["target"] == problem]
        for row in rows:
            name, tv = row["correction"], row["tv_target"]
            colour = {"none": red, "pec": blue, "hk2": blue}.get(name, grey)
            axis.plot(tv, place[name], "o", color=colour, ms=7)
            words = f"{tv:.3f}   {row['cost']:.2g}×"
            axis.annotate(
                words, (tv, place[name]), xytext=(9, -4), textcoords="offset points", color=colour, fontsize=9
            )
        axis.set(xscale="log", title=title, xlabel="total variation to the target, and time of a step ÷ none")
        axis.grid(axis="y", color="0.92")
        axis.margins(x=0.35)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(list(place.values()), list(place))
    figure.savefig(path, dpi=150)
    plt.close(figure)
