r"""Evidence from mini-batches at equal cost: the published bound fails, the same chains scored by work do not.

log Z by seven methods, each with G evaluations of single examples a chain, whatever it takes to know the mode and the
curvature included; an example looked at twice, as control variates do, counts twice. Nothing is tuned on the true
log Z: steps are the library's own, batches 100. A figure is the root of the mean square error of single chains,
without those that left the numbers (`lost` of a row).

    dais              all data, γ = 0.9                    stochastic_dais   mini-batches, as published
    midpoint          the same steps, scored by work       midpoint_cv       with control variates at the mode
    two_batch         |g|² from two halves of a batch      zigzag            Zig-Zag with subsampling, a true bound
    ti                thermodynamic integration with control variates, 32 temperatures

Problems: the paper's regression (n = 10,000, d = 10, log Z exact); logistic regression (n = 10,000, d = 5, log Z by
importance sampling from a wide Laplace approximation); a network 1-4-1 (n = 1,000, tanh, 13 weights, σ = 0.3 known;
log Z by the library's sequential Monte Carlo, with its error; no Zig-Zag, for a network's gradients have no bound).
`--data logistic` runs one of them alone.

Figures: `rmse_<method>_G1e6`, `_G1e7` on the regression, `rmse_<problem>_<method>_…` on the others, and
`gradient_<method>`, d log Z/d log σ² of the regression over the exact one by chains of 2,000 rungs.

References
----------
Zhang, Hsu, Li, Finn & Grosse (2021), Differentiable annealed importance sampling, §4 and §6.
"""

from __future__ import annotations

import math
import time
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import noise
from langevin.core.record import replace
from langevin.core.result import Result
from langevin.core.target import examples
from langevin.data.files import DataError
from langevin.evidence.annealing.dais import Annealing, choose_steps, log_weights
from langevin.evidence.annealing.ladder import power_ladder, to_ladder
from langevin.evidence.base import Normal
from langevin.evidence.minibatch import zigzag, zigzag_process
from langevin.evidence.minibatch.factored import linear, logistic
from langevin.evidence.minibatch.preparation import choose_steps as pace
from langevin.evidence.minibatch.preparation import prepare
from langevin.evidence.minibatch.stages import rest_at_all
from langevin.evidence.minibatch.trajectory import anneal, anneal_compiled
from langevin.evidence.mode import find_mode
from langevin.evidence.sampling.smc import SMC
from langevin.nets.bnn import bnn
from langevin.nets.mlp import MLP
from langevin.targets.control_variates import control_variates
from langevin.targets.zoo import laplace_truth
from langevin_lab.experiments import _regression as paper
from langevin_lab.oracle import Regression

BATCH, RUNGS = 100, 32
ZIGZAG = 16  # of its chains, for an event at a time takes long
METHODS = ("dais", "stochastic_dais", "midpoint", "midpoint_cv", "two_batch", "zigzag", "ti")
SIZES = {"quick": (("regression",), (10**5,), 16), "cpu": (("regression", "logistic", "network"), (10**6, 10**7), 64)}
SIZES["gpu"] = SIZES["cpu"]
BARS = {"rmse_midpoint_cv_G1e7": "≤ 0.35", "gradient_midpoint_cv": "1 ± 0.01"}


class Problem(NamedTuple):
    """A target on all data, the same factored (or None), a base, log Z, and how well that is known."""

    name: str
    target: Any
    factored: Any
    base: Any
    log_z: float
    stderr: float


def run(size: str, seed: int, *, data: str | None = None) -> Result:
    names, budgets, chains = SIZES[size]
    if data is not None and data not in PROBLEMS:
        raise DataError(f"evidence-minibatch: there is no problem {data!r}; there are {', '.join(PROBLEMS)}.")
    names = names if data is None else (data,)
    k_problems, k_runs, k_gradient = jax.random.split(noise.key(seed), 3)
    table = []
    for i, name in enumerate(PROBLEMS):
        if name not in names:
            continue
        problem = PROBLEMS[name](jax.random.fold_in(k_problems, i))
        for G in budgets:
            for j, method in enumerate(METHODS):
                if method == "zigzag" and problem.factored is None:
                    continue
                key = jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(k_runs, i), G), j)
                table.append(_measured(key, problem, method, G, chains))
    figures = {}
    for row in table:
        head = "rmse" if row["problem"] == "regression" else f"rmse_{row['problem']}"
        figures[f"{head}_{row['method']}_G1e{round(math.log10(row['G']))}"] = row["rmse"]
    if "regression" in names:
        figures |= gradients(k_gradient, 2000 if size != "quick" else 200)
    bars = {k: v for k, v in BARS.items() if k in figures}
    result = Result("evidence-minibatch", figures, table, bars=bars)
    result.drawing = partial(draw, table)
    return result


# --- problems ---------------------------------------------------------------------------------------------------------


def _regression(key) -> Problem:
    known = paper.problem()
    x, y = (jnp.asarray(u, jnp.float32) for u in (known.X, known.y))
    return Problem("regression", paper.bayes(), linear(x, y), paper.base(), known.log_z, 0.0)


def _logistic(key) -> Problem:
    k_weight, k_x, k_y, k_truth = jax.random.split(key, 4)
    weight, x = jax.random.normal(k_weight, (5,)), jax.random.normal(k_x, (10_000, 5))
    y = jax.random.bernoulli(k_y, jax.nn.sigmoid(x @ weight)).astype(x.dtype)
    target = logistic(x, y)
    truth = laplace_truth(k_truth, target, 5)
    return Problem("logistic", target, target, target.base, float(truth.log_z), float(truth.ess) ** -0.5)


def _network(key) -> Problem:
    k_x, k_y, k_truth = jax.random.split(key, 3)
    x = jax.random.uniform(k_x, (1000, 1), minval=-2.0, maxval=2.0)
    y = jnp.sin(2 * x[:, 0]) + 0.3 * jax.random.normal(k_y, (1000,))
    model = bnn(partial(MLP, (1, 4, 1), activation=jnp.tanh), (x, y), kind="gaussian", prior=1.0, noise=0.3)
    base = Normal(jax.tree.map(jnp.zeros_like, model.position), 1.0)  # the prior
    truth = SMC(particles=16_384, moves=16)(k_truth, model.target, base)
    return Problem("network", model.target, None, base, float(truth.log_z), float(truth.stderr))


PROBLEMS = {"regression": _regression, "logistic": _logistic, "network": _network}


# --- methods ----------------------------------------------------------------------------------------------------------


def _measured(key, problem: Problem, method: str, G: int, chains: int) -> dict:
    began = time.perf_counter()
    score, spent, K = _scores(key, problem, method, G, chains)
    error = np.asarray(score, np.float64) - problem.log_z
    lost, error = int(np.sum(~np.isfinite(error))), error[np.isfinite(error)]
    return dict(
        problem=problem.name,
        method=method,
        G=G,
        K=K,
        chains=len(error) + lost,
        lost=lost,
        spent=spent,
        bias=float(error.mean()),
        sd=float(error.std(ddof=1)),
        rmse=float(np.sqrt(np.mean(error**2))),
        truth_stderr=problem.stderr,
        seconds=time.perf_counter() - began,
    )


def _scores(key, problem: Problem, method: str, G: int, chains: int) -> tuple[Any, float, int]:
    """The scores of chains, the evaluations each had (preparation included), and its rungs."""
    if method == "dais":
        return _dais(key, problem, G, chains)
    if method == "zigzag":
        return _zigzag(key, problem, G, min(chains, ZIGZAG))
    k_start, k_run = jax.random.split(key)
    control = "auto" if method in ("midpoint_cv", "ti") else "none"
    ready = prepare(k_start, replace(problem.target, batch=BATCH), problem.base, chains, control)
    each = _price(ready, control)
    left = G - ready.n_data - (problem.target.n if method in ("stochastic_dais", "two_batch") else 0)
    K = max(10, int(left / each))
    if method == "ti":
        steps = max(2, K // (RUNGS + 1))
        how = ready.target, problem.base, pace(ready, K), power_ladder(RUNGS, 4.0), ready.starts
        scored = rest_at_all(k_run, *how, steps=steps)
    else:
        score = {"stochastic_dais": "kinetic", "two_batch": "two_batch"}.get(method, "midpoint")
        scored = anneal_compiled(k_run, ready.target, problem.base, pace(ready, K, score), to_ladder(K), ready.starts)
    return scored.score, ready.n_data + float(scored.n_data[0]), K


def _price(ready, control: str) -> float:
    """Examples a step looks at."""
    if ready.recenter:
        return 2 * BATCH + ready.target.target.n / ready.recenter
    return BATCH * (1 if control == "none" else 3 if ready.mode.hessian is not None else 2)


def _dais(key, problem: Problem, G: int, chains: int):
    n = examples(problem.target)
    start = jax.tree.map(lambda u: u[0], problem.base.exact(jax.random.key(0), 1))
    cost = int(find_mode(problem.target, problem.base, start).n_eval)
    K = max(10, G // n - cost - 2)
    beta = to_ladder(K)[1:]
    eta, _ = choose_steps(problem.target, problem.base, start, beta)
    log_w = _annealed(key, problem.target, problem.base, Annealing(beta, eta), chains=chains)
    return log_w, float(n * (K + cost + 2)), K


@partial(jax.jit, static_argnames="chains")
def _annealed(key, target, base, annealing, *, chains):
    return log_weights(key, target, base, annealing, particles=chains)


def _zigzag(key, problem: Problem, G: int, chains: int):
    """As many rungs as the budget pays for, by a first run of few."""
    k_pilot, k_start, k_run = jax.random.split(key, 3)
    process = zigzag_process.build_process(problem.factored)
    start = problem.base.exact(k_start, chains)
    climb = partial(zigzag.anneal, process=process, duration=1.0, weight="linear", batch=20, order=2)
    few = climb(k_pilot, beta=to_ladder(200), start=start)
    ready, each = float(process.anchor.n_data), float(jnp.mean(few.particle.n_data)) / 200
    K = max(50, int((G - ready) / each))
    done = climb(k_run, beta=to_ladder(K), start=start)
    return done.log_weight, ready + float(jnp.mean(done.particle.n_data)), K


# --- gradients --------------------------------------------------------------------------------------------------------


def gradients(key, K: int, chains: int = 16) -> dict[str, float]:
    """d log Z/d log σ² at σ = 1 by chains, over the exact one."""
    known = paper.problem()
    exact = lambda s: Regression(known.X, known.y, sigma=math.exp(0.5 * s)).log_z
    truth = (exact(1e-4) - exact(-1e-4)) / 2e-4
    k_start, k_run = jax.random.split(key)
    found = {}
    for name, score, control in (
        ("stochastic_dais", "kinetic", "none"),
        ("midpoint", "midpoint", "none"),
        ("midpoint_cv", "midpoint", "auto"),
    ):
        ready = prepare(jax.random.clone(k_start), paper.bayes(BATCH), paper.base(), chains, control)
        anchor = None if control == "none" else ready.mode.position
        how = anchor, pace(ready, K, score), to_ladder(K), ready.starts
        slope = _slope(jax.random.clone(k_run), jnp.zeros(()), *how)
        found[f"gradient_{name}"] = float(slope) / truth
    return found


@jax.jit
def _slope(key, log_variance, anchor, mover, beta, starts):
    def mean(s):
        plain = paper.bayes(BATCH, s)
        target = plain if anchor is None else control_variates(plain, anchor, hessian=_hessian(plain, anchor))
        return jnp.mean(anneal(key, target, paper.base(), mover, beta, starts).score)

    return jax.grad(mean)(log_variance)


def _hessian(target, position):
    """Of the log likelihood of all data."""
    return jax.hessian(lambda x: jnp.sum(target.likelihood(x, target.data)))(position)


def draw(table: list[dict], path: str) -> None:
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    problems = list(dict.fromkeys(row["problem"] for row in table))
    budgets = sorted({row["G"] for row in table})
    shades = plt.get_cmap("Blues")(np.linspace(0.45, 0.85, len(budgets)))
    shape, axes = plt.subplots(
        1, len(problems), figsize=(4.6 * len(problems), 3.6), layout="constrained", squeeze=False
    )
    for axis, problem in zip(axes[0], problems, strict=True):
        names = [m for m in METHODS if any((r["problem"], r["method"]) == (problem, m) for r in table)][::-1]
        for i, (G, shade) in enumerate(zip(budgets, shades, strict=True)):
            rows = {r["method"]: r["rmse"] for r in table if (r["problem"], r["G"]) == (problem, G)}
            places = np.arange(len(names)) + 0.35 * (0.5 * (len(budgets) - 1) - i)
            bars = axis.barh(places, [rows[m] for m in names], height=0.33, color=shade, label=f"$G$ = {G:.0e}")
            axis.bar_label(bars, fmt="%.3g", padding=3, fontsize=8)
        axis.set_yticks(range(len(names)), [m.replace("_", " ") for m in names])
        axis.set(xscale="log", xlabel="error of a chain (nats, RMSE)", title=problem)
        axis.margins(x=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][-1].legend(frameon=False, loc="lower right", fontsize=8)
    shape.savefig(path, dpi=150)
    plt.close(shape)
