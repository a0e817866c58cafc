"""Chains side by side (`vmap`) or one after the other (`lax.map`): the rule of `core/place` is read off this table.

SGLD on MLPs of growing width, 8 chains, batch 64, time per chain-step of both layouts.
"""

from __future__ import annotations

import numpy as np

from langevin.core import noise, sharding, tree
from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.result import Result, interleaved, ratio
from langevin.samplers.sgld import SGLD
from langevin_lab.benchmarks.overhead import log_density, problem

BARS: dict[str, str] = {}
NETS = (
    (8, 16, 16, 2),
    (32, 64, 64, 10),
    (64, 128, 128, 10),
    (128, 192, 192, 10),
    (256, 256, 256, 10),
    (784, 200, 200, 10),
    (784, 400, 400, 10),
)


def run(size: str, seed: int) -> Result:
    chains, table, wrong = 8, [], 0
    for sizes in NETS[: 2 if size == "quick" else None]:
        model = problem(sizes, 64, n=2000, seed=seed)
        kernel, weights = SGLD(1e-7), tree.size(model.position)
        steps = 20 if size == "quick" else max(20, min(500, 3_000_000 // weights))
        states = begin_all(noise.key(seed), kernel, model.target, model.starts(noise.key(seed + 1), chains))
        runs = {
            way: lambda i, way=way: advance(
                noise.key(i),
                kernel,
                model.target,
                states,
                length=steps,
                collect=log_density,
                n=np.int32(steps),
                layout=way,
            )
            for way in ("vmap", "map")
        }
        seconds = interleaved(runs, 3 if size == "quick" else 9)
        over = ratio(seconds, "map", "vmap")
        rule = sharding.layout(states.position, chains)
        wrong += int((over < 1) != (rule == "map"))
        per = {way: 1e6 * float(np.median(v)) / steps / chains for way, v in seconds.items()}
        table.append(dict(weights=weights, vmap_us=per["vmap"], map_us=per["map"], map_over_vmap=over, rule=rule))
    return Result("layout", dict(rule_disagrees=wrong), table, BARS)
