"""What sampling costs over plain training: an SGLD step ÷ an Optax SGD step.

An MLP 784-200-200-10 on 10,000 examples, batch 128, one chain, the same compiled loop of 500 steps, the same keys
and the same batches. The SGD step is the limit: whatever is above it is noise and book-keeping.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

from langevin.core import noise
from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.result import Result, interleaved, ratio
from langevin.nets.bnn import bnn
from langevin.nets.mlp import MLP
from langevin.samplers.sgld import SGLD

BARS = {
    "sgld_over_sgd_gaussian": "≤ 1.35 (CPU), ≤ 1.05 (GPU)",
    "sgld_over_sgd_rademacher": "≤ 1.08 (CPU), ≤ 1.05 (GPU)",
}


def problem(sizes: tuple[int, ...], batch: int, n: int = 10_000, seed: int = 0):
    """Random inputs and classes: the arithmetic of a classifier without its data."""
    k_x, k_y = jax.random.split(jax.random.key(seed))
    x = jax.random.normal(k_x, (n, sizes[0]))
    y = jax.random.randint(k_y, (n,), 0, sizes[-1])
    return bnn(partial(MLP, sizes), (x, y), kind="categorical", batch=batch)


SGD = optax.sgd(1e-7)


@partial(jax.jit, static_argnames="steps")
def sgd(key, target, position, steps):
    """Plain Optax SGD in one scan, mini-batches drawn by the same target from the same keys."""
    keys = jax.vmap(partial(jax.random.fold_in, jax.random.split(key, 1)[0]))(jnp.arange(steps, dtype=jnp.int32))

    def step(carry, key):
        position, memory = carry
        _, k_eval = jax.random.split(key)
        batch, _ = target.draw(k_eval, ())
        evaluation = target.evaluate(batch, position)
        updates, memory = SGD.update(jax.tree.map(jnp.negative, evaluation.grad), memory)
        return (optax.apply_updates(position, updates), memory), evaluation.log_density

    return jax.lax.scan(step, (position, SGD.init(position)), keys)


def log_density(state):
    """Keep the log density alone, as the SGD loop does."""
    return state.eval.log_density


def run(size: str, seed: int) -> Result:
    steps = {"quick": 20, "cpu": 300, "gpu": 2000}[size]
    model = problem((784, 200, 200, 10), 128, seed=seed)
    position = model.position
    start = jax.tree.map(lambda u: u[None], position)
    runs, table = {}, []
    impls = ("hash", "threefry") if size != "quick" else ("hash",)
    for impl in impls:
        key = partial(noise.key, impl=impl)
        runs[f"sgd {impl}"] = lambda i, key=key: sgd(key(seed + i), model.target, position, steps)
        for kind in ("normal", "rademacher"):
            kernel = SGLD(1e-7, noise=kind)
            states = begin_all(key(seed), kernel, model.target, start)
            runs[f"sgld {kind} {impl}"] = lambda i, key=key, kernel=kernel, states=states: advance(
                key(seed + i), kernel, model.target, states, length=steps, collect=log_density, n=np.int32(steps)
            )
    seconds = interleaved(runs, 3 if size == "quick" else 15)
    for name, times in seconds.items():
        base = "sgd " + name.split()[-1]
        table.append(
            dict(method=name, us_per_step=1e6 * float(np.median(times)) / steps, over_sgd=ratio(seconds, name, base))
        )
    by = {row["method"]: row for row in table}
    figures = dict(
        sgld_over_sgd_gaussian=by["sgld normal hash"]["over_sgd"],
        sgld_over_sgd_rademacher=by["sgld rademacher hash"]["over_sgd"],
        us_per_step_sgd=by["sgd hash"]["us_per_step"],
    )
    return Result("overhead", figures, table, BARS)
