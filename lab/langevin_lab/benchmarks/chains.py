"""A thousand chains of a small network side by side: chain-steps a second.

An MLP 8-18-18-10 (694 weights) with softmax on 10,000 examples, mini-batches of 32, a step of one gradient: SGLD, and
SMILE with the noise of its batches alone. 1,000 chains are one program; one alone is beside, to see what chains cost.
"""

from __future__ import annotations

from functools import partial

import jax
import numpy as np

from langevin.core import noise, tree
from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.result import Result, interleaved
from langevin.nets.bnn import bnn
from langevin.nets.mlp import MLP
from langevin.samplers.sgld import SGLD
from langevin.samplers.smile import SMILE
from langevin_lab.benchmarks.overhead import log_density

BARS = {"chain_steps_per_second_sgld": "≥ 1e7 on the GPU", "chain_steps_per_second_smile": "≥ 1e7 on the GPU"}
BAR_SIZES = ("gpu",)
KERNELS = {"sgld": SGLD(1e-6), "smile": SMILE(1e-3, length=np.inf)}
BATCH, ROWS = 32, 10_000


def run(size: str, seed: int) -> Result:
    chains, steps = {"quick": (20, 20), "cpu": (1000, 50), "gpu": (1000, 2000)}[size]
    k_x, k_y, k_start = jax.random.split(jax.random.key(seed), 3)
    data = jax.random.normal(k_x, (ROWS, 8)), jax.random.randint(k_y, (ROWS,), 0, 10)
    model = bnn(partial(MLP, (8, 18, 18, 10)), data, kind="categorical", batch=BATCH)
    starts = model.starts(k_start, chains)
    runs = {}
    for name, kernel in KERNELS.items():
        for n in (chains, 1):
            states = begin_all(noise.key(seed), kernel, model.target, jax.tree.map(lambda u, n=n: u[:n], starts))
            runs[f"{name} {n}"] = partial(_advanced, kernel, model.target, states, steps)
    table, figures = [], {}
    for key, times in interleaved(runs, 3 if size == "quick" else 9).items():
        name, n = key.split()[0], int(key.split()[1])
        us = 1e6 * float(np.median(times)) / steps
        table.append(dict(method=name, chains=n, us_per_step=us, chain_steps_per_second=1e6 * n / us))
        if n == chains:
            figures[f"chain_steps_per_second_{name}"] = 1e6 * n / us
    weights = tree.size(model.position)
    return Result("chains", figures, table, BARS, notes=[f"{weights} weights, batch {BATCH}, {ROWS} examples."])


def _advanced(kernel, target, states, steps, i):
    return advance(noise.key(i), kernel, target, states, length=steps, collect=log_density, n=np.int32(steps))
