"""Draw the trusted draws: NUTS, eight chains, every fourth of 5,000 steps each, or exact draws where there are some.

    python -m langevin_lab.references.make [NAME …]      (make references)

Warm-up windows of HMC (`tune.window`) find the step size and one dense metric from all chains. The step size is then
halved, because a longer step diverges where the density is narrow, and such regions would be missed. Draws are kept
if the largest rank-normalized R̂ is below 1.005. The centered form of eight schools takes the draws of the other form:
the posterior of its values is the same, and NUTS is biased in funnels.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from langevin.core import noise
from langevin.core.run import run
from langevin.core.types import position_of
from langevin.diagnostics import ess, rhat
from langevin.samplers.blackjax import NUTS
from langevin.samplers.hmc import HMC
from langevin.tune.window import window
from langevin_lab.references.models import Model, exact, models
from langevin_lab.references.stored import write

CHAINS, KEPT, THIN, WARMUP, DOUBLINGS = 8, 1250, 4, 200, 8
LIMIT = 1.005
TWINS = {"eight_schools-eight_schools_centered": "eight_schools-eight_schools_noncentered"}
FOLDER = Path(__file__).parent / "draws"


class Drawn(NamedTuple):
    """values (chain, draw, k), the largest R̂, the least ESS, gradients of a step."""

    values: np.ndarray
    rhat: float
    ess: float
    gradients: float


def draw(model: Model, seed: int, *, kept: int = KEPT, thin: int = THIN) -> Drawn:
    """Draws of a model by long chains of NUTS."""
    k_start, k_tune, k_run = jax.random.split(noise.key(seed), 3)
    start = model.start(k_start, CHAINS)
    tuned, states = window(k_tune, HMC(0.05, n_leapfrog=15), model.target, start, dense=True, steps=2000)
    kernel = NUTS(tuned.step_size / 2, inverse_mass=tuned.metric.covariance, max_doublings=DOUBLINGS)
    done = run(
        k_run, kernel, model.target, states.position, draws=kept, warmup=WARMUP // thin, thin=thin, collect=position_of
    )
    values = np.asarray(jax.jit(jax.vmap(jax.vmap(model.values)))(done.kept))
    gradients = float(np.mean(np.asarray(done.info.n_grad))) / thin
    return Drawn(values, float(np.max(rhat(values))), float(np.min(ess(values))), gradients)


def main(names: list[str]) -> None:
    every = models()
    for name in names or every:
        began, found = time.perf_counter(), exact(name, CHAINS * KEPT)
        if found is None:
            drawn = draw(every[TWINS.get(name, name)], 0)
            told = f"R̂ {drawn.rhat:.4f}, ESS {drawn.ess:.0f}, {drawn.gradients:.0f} gradients a step"
            if drawn.rhat >= LIMIT:
                raise SystemExit(f"{name}: {told}; R̂ must be below {LIMIT}.")
            found = drawn.values.reshape(-1, drawn.values.shape[-1])
        else:
            told = "independent draws"
        write(FOLDER / f"{name}.npz", found)
        print(f"{name}: {told}, {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
