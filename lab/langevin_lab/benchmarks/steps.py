r"""A step of SGLD and SGHMC on a network: BlackJAX, posteriors and this library.

One chain on classifiers with 10,000 random examples and a N(0, 1) prior, mini-batches of 128 drawn with replacement,
Gaussian noise, T = 1, the same step size. BlackJAX and this library draw mini-batches inside one compiled scan;
posteriors is called from a Python loop, as its documentation does, with `inplace=True`, on one thread or on all,
whichever is faster. All take one gradient a step; a call of BlackJAX's SGHMC counts as the ten leapfrog steps that it
takes by default, on one mini-batch.

`us` is microseconds of a step, the median over turns in one process, `over_ours` the median ratio of the same turn.
`compile` is by how much the first call took longer. `memory` is the peak of the resident memory, in MB, of a process
that takes 100 of these steps and nothing else, and `import` that of its imports alone.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import numpy as np

from langevin.core import noise
from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.result import Result, interleaved, ratio
from langevin.samplers.sghmc import SGHMC
from langevin.samplers.sgld import SGLD
from langevin_lab.benchmarks._peers import busy_cores, label, missing
from langevin_lab.benchmarks.overhead import log_density, problem

NETS = {"8-16-16-2": (8, 16, 16, 2), "784-200-200-10": (784, 200, 200, 10)}
STEPS = {"8-16-16-2": 1000, "784-200-200-10": 150}
LEAPS = 10  # leapfrog steps of a call of BlackJAX's SGHMC: with one, its gradient would not be used
BATCH, N, STEP, FRICTION = 128, 10_000, 1e-7, 1.0
LIBRARIES = ("langevin", "blackjax", "posteriors")
SAMPLERS = ("sgld", "sghmc")


def run(size: str, seed: int) -> Result:
    turns = 3 if size == "quick" else 7
    nets = list(NETS)[:1] if size == "quick" else list(NETS)
    here = [name for name in LIBRARIES if name == "langevin" or not missing(name)]
    table: list[dict[str, Any]] = [
        dict(net="", sampler="", method=name, note=missing(name)) for name in LIBRARIES if name not in here
    ]
    figures: dict[str, float] = {"busy_cores": busy_cores()}
    for net in nets:
        for sampler in SAMPLERS:
            steps = 20 if size == "quick" else STEPS[net]
            calls = {name: METHODS[name](NETS[net], sampler, steps, seed) for name in here}
            first = {name: _seconds(call, 0) for name, call in calls.items()}
            seconds = interleaved(calls, turns)
            for name in here:
                median = float(np.median(seconds[name]))
                row: dict[str, Any] = dict(net=net, sampler=sampler, method=name, version=label(name))
                row |= dict(us=1e6 * median / steps, over_ours=ratio(seconds, name, "langevin"))
                row |= dict(compile=max(first[name] - median, 0.0))
                table.append(row | (_memory(net, sampler, name) if size != "quick" else {}))
                if name != "langevin":
                    figures[f"{name}_over_ours_{sampler}_{net}"] = row["over_ours"]
    return Result("steps", figures, table)


def _seconds(call: Callable[[int], Any], turn: int) -> float:
    began = time.perf_counter()
    jax.block_until_ready(call(turn))
    return time.perf_counter() - began


def _memory(net: str, sampler: str, name: str) -> dict[str, float]:
    command = [sys.executable, "-m", "langevin_lab.benchmarks.steps", net, sampler, name]
    done = subprocess.run(command, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {}


def ours(sizes, sampler: str, steps: int, seed: int) -> Callable[[int], Any]:
    model = problem(sizes, BATCH, n=N, seed=seed)
    kernel: Any = SGLD(STEP) if sampler == "sgld" else SGHMC(STEP**0.5, friction=FRICTION)
    states = begin_all(noise.key(seed), kernel, model.target, jax.tree.map(lambda u: u[None], model.position))
    return lambda turn: advance(
        noise.key(seed + turn), kernel, model.target, states, length=steps, collect=log_density, n=np.int32(steps)
    )


def theirs_jax(sizes, sampler: str, steps: int, seed: int) -> Callable[[int], Any]:
    import blackjax
    from blackjax.sgmcmc.gradients import grad_estimator

    model = problem(sizes, BATCH, n=N, seed=seed)
    x, y = model.target.data
    one = lambda position, row: model.target.likelihood(position, (row[0][None], row[1][None]))[0]
    estimate = grad_estimator(model.target.prior, one, data_size=N)
    built = blackjax.sgld(estimate) if sampler == "sgld" else blackjax.sghmc(estimate, num_integration_steps=LEAPS)
    h, calls = (STEP, steps) if sampler == "sgld" else (STEP**0.5, steps // LEAPS)

    @jax.jit
    def loop(key, position):
        def step(position, key):
            k_batch, k_step = jax.random.split(key)
            index = jax.random.randint(k_batch, (BATCH,), 0, N)
            return built.step(k_step, position, (x[index], y[index]), h), None

        return jax.lax.scan(step, built.init(position), jax.random.split(key, calls))[0]

    return lambda turn: loop(jax.random.key(seed + turn), model.position)


def theirs_torch(sizes, sampler: str, steps: int, seed: int) -> Callable[[int], Any]:
    import posteriors
    import torch
    from torch.func import functional_call

    torch.manual_seed(seed)
    layers: list[Any] = []
    for wide, narrow in pairwise(sizes):
        layers += [torch.nn.Linear(wide, narrow), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers[:-1])
    x, y = torch.randn(N, sizes[0]), torch.randint(sizes[-1], (N,))

    def log_posterior(params, batch):
        out = functional_call(net, params, (batch[0],))
        log_prior = sum(-0.5 * torch.sum(u**2) for u in params.values())
        return -N * torch.nn.functional.cross_entropy(out, batch[1]) + log_prior, torch.tensor([])

    how: dict[str, Any] = dict(lr=STEP) if sampler == "sgld" else dict(lr=STEP**0.5, alpha=FRICTION)
    transform = getattr(posteriors.sgmcmc, sampler).build(log_posterior, **how)

    def call(turn: int, steps: int = steps) -> float:
        state = transform.init({k: u.detach().clone() for k, u in net.named_parameters()})
        for _ in range(steps):
            index = torch.randint(N, (BATCH,))
            state, _ = transform.update(state, (x[index], y[index]), inplace=True)
        return float(state.log_posterior)

    taken = {}
    for threads in {1, torch.get_num_threads()}:
        torch.set_num_threads(threads)
        call(0, 3)
        taken[threads] = _seconds(partial(call, steps=10), 0)
    torch.set_num_threads(min(taken, key=lambda threads: taken[threads]))
    return call


METHODS = {"langevin": ours, "blackjax": theirs_jax, "posteriors": theirs_torch}


def _peak() -> float:
    """MB of this program; the counter of `resource` would begin at the peak of the process that started it."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def main(net: str, sampler: str, name: str) -> None:
    """Peak memory of this process, which this file's own imports are the least of."""
    if name != "langevin":
        missing(name)
    before = _peak()
    jax.block_until_ready(METHODS[name](NETS[net], sampler, 100, 0)(0))
    print(json.dumps({"memory": _peak(), "import": before}))


if __name__ == "__main__":
    main(*sys.argv[1:])
