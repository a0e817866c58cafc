"""What Γ costs on a network: a corrected PSGLD step ÷ the plain, biased one.

An MLP 784-256-256-10 on 10,000 examples, one chain, batches of 128 and 512, the same compiled loop. `pec` makes one
gradient a step like the plain kernel; `hk2` adds two evaluations of a metric batch of an eighth, `held` (pec with such
a batch, held for 64 steps) one; `windowed` is a metric frozen for a window, taken from the window before last, for
which Γ = 0. SGLD and plain SGD are beside. `mapped_over_two_passes`: the gradients of a batch and of its own metric
batch of an eighth at one position, as nine parts of one mapped pass ÷ one pass for each.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import noise
from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.record import replace
from langevin.core.result import Result, interleaved, ratio
from langevin.dynamics.metrics.windowed import Windowed
from langevin.samplers.psgld import PSGLD
from langevin.samplers.riemannian import Riemannian
from langevin.samplers.sgld import SGLD
from langevin_lab.benchmarks.overhead import log_density, problem, sgd

BARS = {
    "pec_over_psgld_128": "≤ 1.10",
    "pec_over_psgld_512": "≤ 1.10",
    "held_over_psgld_128": "≤ 1.45",
    "held_over_psgld_512": "≤ 1.45",
    "hk2_over_psgld_128": "≤ 1.45",
    "hk2_over_psgld_512": "≤ 1.45",
}
STEP = 1e-7


def kernels() -> dict:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "sgld": SGLD(STEP),
            "psgld": PSGLD(STEP, correction="none"),
            "pec": PSGLD(STEP, correction="pec"),
            "hk2": PSGLD(STEP, correction="hk2", metric_batch=1 / 8),
            "held": PSGLD(STEP, correction="pec", metric_batch=1 / 8),
            "hutchinson": PSGLD(STEP, correction="hutchinson", metric_batch=1 / 8),
            "windowed": Riemannian(STEP, metric=Windowed(window=50)),
        }


def run(size: str, seed: int) -> Result:
    steps = {"quick": 20, "cpu": 150, "gpu": 2000}[size]
    figures, table = {}, []
    for batch in (128, 512):
        model = problem((784, 256, 256, 10), batch, seed=seed)
        start = jax.tree.map(lambda u: u[None], model.position)
        runs: dict[str, Any] = {
            "sgd": lambda i, model=model: sgd(noise.key(seed + i), model.target, model.position, steps)
        }
        for name, kernel in kernels().items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # pec on one shared batch: here its cost is asked, not its law
                states = begin_all(noise.key(seed), kernel, model.target, start)
            runs[name] = lambda i, kernel=kernel, states=states, model=model: _advanced(
                noise.key(seed + i), kernel, model.target, states, steps
            )
        seconds = interleaved(runs, 3 if size == "quick" else 15)
        for name, times in seconds.items():
            row = dict(batch=batch, method=name, us_per_step=1e6 * float(np.median(times)) / steps)
            table.append(row | dict(over_psgld=ratio(seconds, name, "psgld"), over_sgd=ratio(seconds, name, "sgd")))
        for name in ("pec", "hk2", "held", "hutchinson", "windowed"):
            figures[f"{name}_over_psgld_{batch}"] = ratio(seconds, name, "psgld")
        figures[f"psgld_over_sgd_{batch}"] = ratio(seconds, "psgld", "sgd")
        passes = {
            name: lambda i, fn=fn, model=model: fn(noise.key(seed + i), model.target, model.position, steps)
            for name, fn in (("mapped", mapped), ("two", two_passes))
        }
        figures[f"mapped_over_two_passes_{batch}"] = ratio(
            interleaved(passes, 3 if size == "quick" else 15), "mapped", "two"
        )
    return Result("pec", figures, table, BARS)


@partial(jax.jit, static_argnames="steps")
def mapped(key, target, position, steps):
    """Drift and the metric's square gradient from one pass over nine parts of a batch and an eighth."""
    wide = replace(target, batch=target.batch * 9 // 8)

    def look(key, position):
        batch, _ = wide.draw(key, ())
        parts = jax.tree.map(lambda u: u.reshape(9, -1, *u.shape[1:]), batch)
        grads = jax.vmap(lambda part: wide.evaluate(part, position).grad)(parts)
        return jax.tree.map(lambda g: (jnp.mean(g[:8], 0), g[8] ** 2), grads)

    return _descend(look, key, position, steps)


@partial(jax.jit, static_argnames="steps")
def two_passes(key, target, position, steps):
    """The same from a pass over a batch and a pass over an eighth."""

    def look(key, position):
        k_drift, k_metric = jax.random.split(key)
        drift = target.evaluate(target.draw(k_drift, ())[0], position).grad
        metric = target.evaluate(target.draw(k_metric, (), fraction=1 / 8)[0], position).grad
        return jax.tree.map(lambda g, m: (g, m**2), drift, metric)

    return _descend(look, key, position, steps)


def _descend(look, key, position, steps):
    def step(position, key):
        seen = look(key, position)
        move = lambda u, both: u + 1e-7 * both[0] / jnp.sqrt(both[1] + 1.0)
        return jax.tree.map(move, position, seen), None

    return jax.lax.scan(step, position, jax.random.split(key, steps))[0]


def _advanced(key, kernel, target, states, steps):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return advance(key, kernel, target, states, length=steps, collect=log_density, n=np.int32(steps))
