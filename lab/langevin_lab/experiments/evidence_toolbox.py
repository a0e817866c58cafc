r"""Every method for log Z on one problem whose log Z is known: the error, what the method says of it, and the price.

The paper's regression (n = 10,000, d = 10, log Z = −14260.2204), from the prior for all that anneal, and from a
Gaussian 1.5 times as wide as the posterior's for `importance` and `sumo`. Settings are those a user gets without any,
but for shorter ladders at `--size quick`. Draws of the posterior, where a method needs them, are exact.

Figures: `toolbox_error_<method>`, log_z less the truth in nats; `toolbox_z_<method>`, that over the method's own
standard error (`laplace` and `harmonic` have none that means anything); `bdmc_brackets`, 1 if the truth
lies between its bounds, to two standard errors, for they hold on average: `bdmc_lower` and `bdmc_upper` less the truth.

References
----------
Zhang, Hsu, Li, Finn & Grosse (2021), Differentiable annealed importance sampling, §5.1 (the problem).
"""

from __future__ import annotations

import time
import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import noise
from langevin.core.result import Result
from langevin.evidence import METHODS as RECORDS
from langevin.evidence import log_evidence
from langevin.evidence.minibatch.factored import linear
from langevin.evidence.types import Evidence
from langevin.targets.zoo import Gaussian
from langevin_lab.experiments import _regression as paper

NO_ERROR = ("laplace", "harmonic")
BATCH = 100
ANNEALED = ("ais", "hais", "reverse", "bdmc", "dais", "smc", "midpoint", "zigzag")
METHODS = ("importance", "sumo", "adapted", *ANNEALED, "thermo", "stepping", "bridge", "nested", "laplace", "harmonic")
QUICK = {name: dict(ladder=100, particles=32) for name in ("ais", "hais", "reverse", "bdmc", "dais", "midpoint")}
QUICK |= {"adapted": dict(particles=500), "zigzag": dict(ladder=30, particles=8), "nested": dict(live=100, moves=8)}
QUICK |= {"thermo": dict(ladder=8, draws=50), "stepping": dict(ladder=8, draws=50)}


def run(size: str, seed: int) -> Result:
    known = paper.problem()
    k_draws, *keys = jax.random.split(noise.key(seed), 1 + len(METHODS))
    posterior = np.linalg.inv(known.precision)
    draws = Gaussian(known.mode, posterior).exact(k_draws, 4000)
    table, notes = [], []
    for key, name in zip(keys, METHODS, strict=True):
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # harmonic says what it is
            try:
                found = _by(key, name, draws, QUICK.get(name, {}) if size == "quick" else {})
            except ImportError as error:
                notes.append(f"{name} is left out: {error}")
                continue
        table.append(_row(name, found, known.log_z, time.perf_counter() - began))
    figures: dict[str, float] = {}
    for row in table:
        figures[f"toolbox_error_{row['method']}"] = row["error"]
    for row in table:
        if row["method"] not in NO_ERROR:
            figures[f"toolbox_z_{row['method']}"] = row["z"]
    both = next(row for row in table if row["method"] == "bdmc")
    figures |= {"bdmc_lower": both["lower"], "bdmc_upper": both["upper"]}
    near = 2 * both["stderr"]
    figures["bdmc_brackets"] = float(both["lower"] - near <= 0 <= both["upper"] + near)
    bars = {name: "|z| ≤ 4" for name in figures if name.startswith("toolbox_z")} | {"bdmc_brackets": "1"}
    result = Result("evidence-toolbox", figures, table, bars=bars, notes=notes)
    result.drawing = partial(draw, table)
    return result


def _by(key, name: str, draws, how: dict) -> Evidence:
    known, base, method = paper.problem(), paper.base(), RECORDS[name](**how)
    if name in ("importance", "sumo"):
        wide = Gaussian(known.mode, 1.5 * np.linalg.inv(known.precision))
        return log_evidence(key, paper.quadratic(), wide, method)
    if name == "midpoint":
        return log_evidence(key, paper.bayes(BATCH), base, method)
    if name == "zigzag":
        x, y = (jnp.asarray(u, jnp.float32) for u in (known.X, known.y))
        return log_evidence(key, linear(x, y), base, method)
    if method.needs_draws:
        some = draws[:1] if name == "bdmc" else draws[:200] if name == "reverse" else draws.reshape(8, 500, -1)
        return log_evidence(key, paper.quadratic(), base, method, draws=some)
    return log_evidence(key, paper.quadratic(), base, method)


def _row(name: str, found: Evidence, truth: float, seconds: float) -> dict:
    """One method; bounds are told as distances from the truth."""
    error, stderr = float(found.log_z) - truth, float(found.stderr)
    return dict(
        method=name,
        error=error,
        stderr=stderr,
        z=error / stderr,
        lower=float(found.lower) - truth,
        upper=float(found.upper) - truth,
        ess=float(found.ess),
        n_grad=float(found.n_grad),
        seconds=seconds,
        guarantee=found.guarantee,
    )


def draw(table: list[dict], path: str) -> None:
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    colours = {"unbiased-Z": "#2a6f97", "lower": "#5a9367", "upper": "#c8553d", "consistent": "#e09f3e", "none": "0.5"}
    rows = [row for row in table if abs(row["error"]) < 5][::-1]
    shape, axis = plt.subplots(figsize=(8, 0.34 * len(rows) + 1.3), layout="constrained")
    axis.axvline(0, color="#22303c", lw=1)
    for i, row in enumerate(rows):
        width = 2 * row["stderr"] if np.isfinite(row["stderr"]) else 0
        axis.errorbar(row["error"], i, xerr=width, fmt="o", ms=6, lw=2, color=colours[row["guarantee"]])
    axis.set_yticks(range(len(rows)), [row["method"] for row in rows])
    left_out = [f"{row['method']} {row['error']:+.1f}" for row in table if abs(row["error"]) >= 5]
    tail = f"; beyond: {', '.join(left_out)}" if left_out else ""
    axis.set(xlabel=r"estimate $-\,\log Z$ (nats), with two standard errors" + tail)
    axis.legend(
        [plt.Line2D([], [], marker="o", ls="", color=c) for c in colours.values()], colours, frameon=False,
        loc="upper left", bbox_to_anchor=(1, 1), title="guarantee",
    )  # fmt: skip
    axis.spines[["top", "right"]].set_visible(False)
    shape.savefig(path, dpi=150)
    plt.close(shape)
