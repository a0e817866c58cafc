r"""Samplers scored against trusted draws of ten small posteriors: max |bias|/sd, and ESS for 1,000 gradients.

Eight chains begin around a plain guess, are tuned by `tune="auto"`, and take as many steps as the budget of gradients
allows, the first fifth of which is not counted. Kernels without a tuner take the step size that the tuner finds for
SGLD, h: ReplicaExchange(SGLD) and EnsembleSGLD take h, AdaptiveFriction and SamAdams, of second order, √(2h). All
gradients are of the full data, so what is compared is the bias of discretization and the speed of mixing.

bias and noise are defined in `langevin_lab.references.score`; a bias below the noise of its row is not measured. `ess`
is the least over the values of a model. Chains that diverged are counted in `lost` and left out.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import noise, progress
from langevin.core.result import Result
from langevin.core.run import run as run_chains
from langevin.core.types import position_of
from langevin.samplers.adaptive_friction import AdaptiveFriction
from langevin.samplers.blackjax import NUTS
from langevin.samplers.ensemble_sgld import EnsembleSGLD
from langevin.samplers.ghmc import GHMC
from langevin.samplers.hmc import HMC
from langevin.samplers.mala import MALA
from langevin.samplers.mams import MAMS
from langevin.samplers.mclmc import MCLMC
from langevin.samplers.psgld import PSGLD
from langevin.samplers.samadams import SamAdams
from langevin.samplers.sghmc import SGHMC
from langevin.samplers.sgld import SGLD
from langevin.samplers.sgnht import SGNHT
from langevin.samplers.underdamped import Underdamped
from langevin.samplers.wrappers.replica_exchange import ReplicaExchange
from langevin.tune.auto import auto
from langevin_lab.references import models, trusted
from langevin_lab.references.models import Model
from langevin_lab.references.score import score

CHAINS, PILOT, MOST = 8, 100, 2000  # draws of the pilot, draws kept
BUDGET = {"quick": 1000, "cpu": 20_000, "gpu": 20_000}  # gradients a chain
QUICK = ["mesquite-logmesquite_logvash", "eight_schools-eight_schools_noncentered"]
WITHIN = 0.1  # deviations
TUNED: dict[str, tuple[Any, int]] = {  # kernel, steps between draws
    "NUTS": (NUTS(0.1, max_doublings=8), 1),
    "HMC": (HMC(0.1), 1),
    "MALA": (MALA(0.01), 10),
    "GHMC": (GHMC(0.1), 10),
    "MAMS": (MAMS(0.1), 1),
    "MCLMC": (MCLMC(0.1), 10),
    "Underdamped": (Underdamped(0.01), 10),
    "SGLD": (SGLD(1e-3), 10),
    "PSGLD": (PSGLD(1e-3), 10),
    "SGHMC": (SGHMC(0.01), 10),
    "SGNHT": (SGNHT(0.01), 10),
}
BY_SGLD: dict[str, Callable[[Any], Any]] = {
    "ReplicaExchange(SGLD)": lambda h: ReplicaExchange(SGLD(h), (1.0, 2.0)),
    "EnsembleSGLD": lambda h: EnsembleSGLD(h),
    "AdaptiveFriction": lambda h: AdaptiveFriction(jnp.sqrt(2 * h)),
    "SamAdams": lambda h: SamAdams(jnp.sqrt(2 * h)),
}


def run(size: str, seed: int, *, data: str | None = None) -> Result:
    """data: the name of one model, for that alone."""
    every, table = models(), []
    if data is not None and data not in every:
        raise ValueError(f"references: there is no model {data!r}; there are {', '.join(every)}.")
    names = [data] if data else QUICK if size == "quick" else list(every)
    kernels = ["NUTS", "MCLMC", "SGLD"] if size == "quick" else [*TUNED, *BY_SGLD]
    for i, name in enumerate(names):
        table += rows(name, every[name], kernels, BUDGET[size], seed)
        jax.clear_caches()  # programs of all models together exceed what a process may map
        progress.tell(i + 1, len(names))
    figures: dict[str, float] = {}
    for kernel in kernels:
        mine = [row for row in table if row["kernel"] == kernel and "bias" in row]
        figures[f"models_within_{WITHIN}_{kernel}"] = float(sum(row["bias"] < WITHIN for row in mine))
        figures[f"median_ess_per_1000_gradients_{kernel}"] = float(
            np.median([r["ess_per_1000"] for r in mine] or [0.0])
        )
    return Result("references", figures, table)


def rows(name: str, model: Model, kernels: list[str], budget: int, seed: int) -> list[dict[str, Any]]:
    """One row a kernel; what cannot be tuned or diverges says so in its row."""
    found, exact, h = [], trusted(name), None
    values_of = jax.jit(jax.vmap(jax.vmap(model.values)))
    for kernel in kernels:
        k_start, k_tune, k_run = jax.random.split(noise.key(seed), 3)
        row: dict[str, Any] = dict(model=name, kernel=kernel)
        began = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # divergences are counted below
                start = model.start(k_start, CHAINS)
                if kernel in TUNED:
                    made, thin = TUNED[kernel]
                    tuned, states = auto(k_tune, made, model.target, start)
                    start = states.position
                    h = tuned.step_size if kernel == "SGLD" else h
                else:
                    tuned, thin = BY_SGLD[kernel](h), 10
                row |= _scored(k_run, tuned, model.target, start, values_of, exact, thin, budget)
        except (RuntimeError, ValueError, FloatingPointError, TypeError) as error:
            row |= dict(note=str(error).split(";")[0])
        found.append(row | dict(seconds=time.perf_counter() - began))
    return found


def _scored(key, kernel, target, start, values_of, exact, thin: int, budget: int) -> dict[str, Any]:
    """A pilot tells what a draw costs; then a run within the budget, its first fifth left out."""
    k_pilot, k_run = jax.random.split(key)
    how = dict(thin=thin, collect=position_of)
    pilot = run_chains(k_pilot, kernel, target, start, draws=PILOT, **how)
    cost = float(np.mean(np.asarray(pilot.info.n_grad)))
    draws = max(int(0.8 * budget / cost), 50)
    done = run_chains(k_run, kernel, target, start, draws=draws, warmup=draws // 4, **how)
    every = max(draws // MOST, 1)
    kept = jax.tree.map(lambda u: jnp.asarray(u)[:, every - 1 :: every], done.kept)
    values = np.asarray(values_of(kept))
    cold = np.asarray(done.info.log_weight)[:, -1] > -np.inf  # hot replicas are not draws of the model
    fine = np.asarray(done.info.ok).all(axis=1) & np.isfinite(values).all(axis=(1, 2))
    gradients = float(np.asarray(done.info.n_grad).sum())
    row: dict[str, Any] = dict(lost=int(np.sum(~fine & cold)), gradients=gradients)
    if not (fine & cold).any():
        return row | dict(note="all chains diverged")
    found = score(values[fine & cold], exact)
    return row | dict(bias=found.bias, noise=found.noise, ess_per_1000=1000 * found.ess / gradients)
