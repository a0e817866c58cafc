r"""Figure 2 of the DAIS paper: estimates of the test NLL against what they cost, on three trained models.

Models trained by ELBO, IWAE and DAVI as in `dais-table2` (its `--store` is used if it holds them). IWAE is against
particles; AIS, HAIS and DAIS with ten particles against gradients of one particle, from the encoder's q, β linear as in
the paper. AIS has HMC of three leapfrogs a rung with step sizes from a pilot; HAIS and DAIS the paper's
η = 0.08 (K/10)^{−1/4}, γ = 0.9. All are the logarithm of the mean weight of an image, averaged over images (the paper
averages log weights over particles): lower bounds of log p(x) on average, so of two the smaller NLL is the better one.

Figures: `nll_<model>_<method>` at the largest cost, and `dais_minus_ais_<model>`, nats; `iwae_minus_dais_<model>`.

References
----------
Zhang, Hsu, Li, Finn & Grosse (2021), Differentiable annealed importance sampling, figure 2, appendix C.2.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from langevin.core import noise, progress
from langevin.core.result import Result
from langevin.evidence import AIS, DAIS
from langevin.evidence.annealing.ladder import power_ladder
from langevin.samplers.ghmc import GHMC
from langevin.vae.weigh import Importance, log_likelihood
from langevin_lab.experiments import dais_table2
from langevin_lab.experiments.dais_table2 import mnist, trained

CELLS = {"quick": ("vae_1",), "cpu": ("vae_1", "iwae_50", "davi_50_10"), "gpu": ("vae_1", "iwae_500", "davi_500_10")}
COSTS = {"quick": (10, 30), "cpu": (10, 32, 100, 316, 1000), "gpu": (10, 32, 100, 316, 1000, 3162, 10_000, 100_000)}
IMAGES = {"quick": 10, "cpu": 100, "gpu": 1000}
BARS = {f"dais_minus_ais_{cell}": "≤ 0.2" for cell in CELLS["gpu"]}
BAR_SIZES = ("gpu",)


def methods(cost: int) -> dict[str, Any]:
    """The estimators at so many gradients of a particle; particles for IWAE."""
    step, ladder = 0.08 * (cost / 10) ** -0.25, power_ladder(cost, 1.0)
    return {
        "iwae": Importance(cost),
        "ais": AIS(power_ladder(max(1, cost // 3), 1.0), particles=10),
        "hais": AIS(ladder, GHMC(step, gamma=0.9), particles=10),
        "dais": DAIS(ladder, step, particles=10),
    }


def run(size: str, seed: int, *, store: Path | None = None, seconds: float | None = None) -> Result:
    scale, end = dais_table2.SCALES[size], time.monotonic() + (seconds or np.inf)
    x, x_test = mnist(scale, seed)
    x_test = x_test[: IMAGES[size]]
    table: list[dict[str, Any]] = []
    figures: dict[str, float] = {}
    for i, cell in enumerate(CELLS[size]):
        place = None if store is None else store / f"{cell}-{size}-{seed}"
        vae, done = trained(cell, scale, seed, x, place, end)
        if store is not None and done < 1:
            break
        for j, cost in enumerate(COSTS[size]):
            for name, method in methods(cost).items():
                began = time.perf_counter()
                found = log_likelihood(noise.key(seed + 1), vae, x_test, method, base="encoder", block=250)
                row: dict[str, Any] = dict(model=cell, method=name, cost=cost, nll=-found.mean)
                table.append(row | dict(stderr=found.stderr, seconds=time.perf_counter() - began))
                figures[f"nll_{cell}_{name}"] = -found.mean
            progress.tell(i + (j + 1) / len(COSTS[size]), len(CELLS[size]))
        figures[f"dais_minus_ais_{cell}"] = figures[f"nll_{cell}_dais"] - figures[f"nll_{cell}_ais"]
        figures[f"iwae_minus_dais_{cell}"] = figures[f"nll_{cell}_iwae"] - figures[f"nll_{cell}_dais"]
        jax.clear_caches()
    return Result("dais-figure2", figures, table, BARS, drawing=partial(draw, table))


def draw(table: list[dict[str, Any]], file: str) -> None:
    """One panel a model."""
    import matplotlib.pyplot as plt

    models = list(dict.fromkeys(row["model"] for row in table))
    figure, panels = plt.subplots(1, len(models), figsize=(4 * len(models), 3.4), layout="constrained", squeeze=False)
    colors = {"iwae": "#888888", "ais": "#2a6f97", "hais": "#e0a458", "dais": "#c44536"}
    for axes, model in zip(panels[0], models, strict=True):
        for name, color in colors.items():
            own = [row for row in table if row["model"] == model and row["method"] == name]
            axes.plot([r["cost"] for r in own], [r["nll"] for r in own], "o-", ms=4, color=color, label=name.upper())
        axes.set(xscale="log", xlabel="gradients a particle (IWAE: particles)", title=model.replace("_", " "))
    panels[0][0].set_ylabel("estimated test NLL, nats")
    panels[0][0].legend(frameon=False)
    figure.savefig(file, dpi=150)
    plt.close(figure)
