"""How often XLA compiles: a second call with other hyperparameters, other seeds, other step counts must not.

Compilations are counted by a `jax.monitoring` listener on the backend-compile event.
"""

from __future__ import annotations

import jax
import numpy as np

from langevin.core import noise
from langevin.core.posterior import sample
from langevin.core.result import Result
from langevin.samplers.sghmc import SGHMC
from langevin.samplers.sgld import SGLD
from langevin.samplers.underdamped import Underdamped
from langevin_lab.benchmarks.overhead import problem

BARS = {"recompiles": "0"}
EVENT = "/jax/core/compile/backend_compile_duration"


class Counter:
    """Compilations since it was made."""

    def __init__(self):
        self.count = 0
        self.seconds = 0.0
        jax.monitoring.register_event_duration_secs_listener(self._heard)

    def _heard(self, event: str, duration: float, **_) -> None:
        if event == EVENT:
            self.count += 1
            self.seconds += duration


def run(size: str, seed: int) -> Result:
    model = problem((8, 16, 16, 2), 32, n=1000, seed=seed)
    start = model.starts(noise.key(seed), 4)
    counter, table, again = Counter(), [], 0
    for cls in (SGLD, SGHMC, Underdamped):
        counter.count, counter.seconds = 0, 0.0
        sample(noise.key(seed), cls(step_size=1e-4), model.target, start, draws=1000)
        first, seconds = counter.count, counter.seconds
        counter.count = 0
        # an int, a float64 and a new temperature; another seed; counts that do and do not fill a chunk
        for h, T, draws, warmup in ((1e-5, 1, 500, 0), (np.float64(3e-5), 0.5, 1234, 17), (2e-5, 2.0, 3, 500)):
            sample(noise.key(seed + draws), cls(h, T), model.target, start, draws=draws, warmup=warmup)
        again += counter.count
        table.append(dict(method=cls.__name__, first=first, first_seconds=seconds, again=counter.count))
    return Result("compile", dict(recompiles=again), table, BARS)
