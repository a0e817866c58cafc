r"""Differentiable annealing on a regression: its gap to log Z falls as theory says; with mini-batches it never does.

Figure 1 of the paper on its own data (n = 10,000, d = 10): steps η_k = (1 + β_k L)^{−½} (K/10)^{−c}, β linear, γ = 0.
Lines are exact expectations (`langevin_lab.oracle`), dots Monte Carlo with our own sampler, dashes the rates of
theorems 1 and 2: K^{2c−1} on all data and K^{1−2c} with batches of 100. Batches of the lines are drawn without
replacement, as the paper's; those of the dots with replacement, and `z` compares these with an exact value of their
own.

Figures: `gap_c14_K1e2` … in nats for c = 1/4, 1/3, 1/2; `gap_minibatch_…` with batches; `slope_…` over the last decade;
`largest_z` of all dots against their lines.

References
----------
Zhang, Hsu, Li, Finn & Grosse (2021), Differentiable annealed importance sampling, figure 1, theorems 1 and 2.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import noise
from langevin.core.result import Result
from langevin.evidence.annealing.dais import Annealing, log_weights
from langevin.evidence.minibatch.trajectory import Mover, Pace, anneal
from langevin_lab import oracle
from langevin_lab.experiments import _regression as paper

POWERS = {"c14": 1 / 4, "c13": 1 / 3, "c12": 1 / 2}
BATCH = 100
SIZES = {  # longest exact ladder on all data, with batches; longest of Monte Carlo; particles
    "quick": (10**4, 10**3, 10**2, 64),
    "cpu": (10**7, 10**5, 10**4, 256),
    "gpu": (10**7, 10**5, 10**5, 1024),
}
BARS = {
    "gap_c14_K1e2": "39.06",
    "gap_c14_K1e3": "12.92",
    "gap_c14_K1e4": "4.374",
    "gap_c14_K1e5": "1.446",
    "gap_c14_K1e6": "0.4670",
    "gap_c14_K1e7": "0.1489",
    "slope_c14": "-0.497",
    "gap_minibatch_c14_K1e2": "7998",
    "gap_minibatch_c14_K1e3": "23606",
    "gap_minibatch_c14_K1e4": "73229",
    "gap_minibatch_c14_K1e5": "230216",
    "gap_minibatch_c12_K1e5": "2421",
    "largest_z": "< 4",
}


def run(size: str, seed: int) -> Result:
    longest, noisy, drawn, particles = SIZES[size]
    known = paper.problem()
    table = []
    for K in _decades(longest):
        for name, gap in zip(POWERS, oracle.gaps(known, K, list(POWERS.values())), strict=True):
            table.append(dict(batch="all", c=name, K=K, gap=float(gap)))
    for K in _decades(noisy):
        for name, c in POWERS.items():
            gap = -oracle.expected(known, *oracle.published(known, K, c), batch=BATCH).kinetic
            table.append(dict(batch=BATCH, c=name, K=K, gap=gap))
    keys = iter(jax.random.split(noise.key(seed), 2 * len(POWERS) * len(_decades(drawn))))
    for K in _decades(drawn):
        for name, c in POWERS.items():
            table += [_simulated(next(keys), name, c, K, batch, particles) for batch in (None, BATCH)]
    found = figures(table)
    result = Result("dais-figure1", found, table, bars={k: v for k, v in BARS.items() if k in found})
    result.drawing = partial(draw, table)
    return result


def figures(table: list[dict]) -> dict[str, float]:
    exact = [row for row in table if "z" not in row]
    found = {}
    for row in exact:
        kind = "gap" if row["batch"] == "all" else "gap_minibatch"
        found[f"{kind}_{row['c']}_K1e{round(np.log10(row['K']))}"] = row["gap"]
    for batch, kind in (("all", "slope"), (BATCH, "slope_minibatch")):
        for name in POWERS:
            gaps = [row["gap"] for row in exact if (row["batch"], row["c"]) == (batch, name)]
            found[f"{kind}_{name}"] = float(np.log10(gaps[-1] / gaps[-2]))
    found["largest_z"] = max(abs(row["z"]) for row in table if "z" in row)
    return found


def _decades(longest: int) -> list[int]:
    return [10**i for i in range(1, round(np.log10(longest)) + 1)]


def _simulated(key, name: str, c: float, K: int, batch: int | None, particles: int) -> dict:
    """The mean gap of independent chains, and how many of its standard errors it is from the exact one."""
    known = paper.problem()
    beta, eta = oracle.published(known, K, c)
    ladder, steps = jnp.asarray(beta, jnp.float32), jnp.asarray(eta, jnp.float32)
    if batch is None:
        log_w = _all(key, paper.quadratic(), paper.base(), Annealing(ladder, steps, 0.0), particles=particles)
    else:
        log_w = _some(key, paper.bayes(batch), paper.base(), ladder, eta[0], known.stiffness, particles=particles)
    exact = -oracle.expected(known, beta, eta, batch=batch, replacement=True).kinetic
    gaps = known.log_z - np.asarray(log_w, np.float64)
    stderr = float(gaps.std(ddof=1) / np.sqrt(particles))
    gap = float(gaps.mean())
    return dict(batch=batch or "all", c=name, K=K, gap=gap, stderr=stderr, exact=exact, z=(gap - exact) / stderr)


@partial(jax.jit, static_argnames="particles")
def _all(key, target, base, annealing, *, particles):
    return log_weights(key, target, base, annealing, particles=particles)


@partial(jax.jit, static_argnames="particles")
def _some(key, target, base, ladder, first, stiffness, *, particles):
    k_start, k_run = jax.random.split(key)
    starts = base.exact(k_start, particles)
    one = jnp.ones(starts.shape[1:])
    pace = Pace(first**2, one * (1 + stiffness), one)  # η_k² = η_1² / (1 + β_k L)
    beta = jnp.concatenate([jnp.zeros(1), ladder])
    return anneal(k_run, target, base, Mover(pace, 0.0, "kinetic"), beta, starts).score


def draw(table: list[dict], path: str) -> None:
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    colours = dict(zip(POWERS, ("#2a6f97", "#e09f3e", "#c8553d"), strict=True))
    words = dict(zip(POWERS, ("1/4", "1/3", "1/2"), strict=True))
    panels = (("all", "All data", 1), (BATCH, f"Mini-batches of {BATCH}", -1))
    shape, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    for axis, (batch, title, sign) in zip(axes, panels, strict=True):
        for name, colour in colours.items():
            rows = [row for row in table if (row["batch"], row["c"]) == (batch, name)]
            lines = [(row["K"], row["gap"]) for row in rows if "z" not in row]
            dots = [(row["K"], row["gap"], 2 * row["stderr"]) for row in rows if "z" in row]
            x, y = map(np.array, zip(*lines, strict=True))
            axis.plot(x, y, color=colour, lw=1.6, label=f"$c$ = {words[name]}")
            theory = y[-1] * (x / x[-1]) ** (sign * (2 * POWERS[name] - 1))
            axis.plot(x, theory, color=colour, lw=0.9, ls=(0, (4, 3)))
            axis.errorbar(*map(np.array, zip(*dots, strict=True)), color=colour, fmt="o", ms=5, zorder=3)
        axis.set(xscale="log", yscale="log", xlabel="steps $K$", ylabel=r"$\log Z\, -$ bound (nats)")
        axis.set_title(title, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False, title="$\\eta \\sim K^{-c}$")
    shape.suptitle("Lines: exact; dots: Monte Carlo; dashes: the rates of theorems 1 and 2", fontsize=10)
    shape.savefig(path, dpi=150)
    plt.close(shape)
