"""The gradient of annealing by scan, with checkpoints, and reversible: XLA's temporary bytes, time, and error.

64 weights θ of the features tanh(x W + b)/8 of 200 examples, noise 1, γ = 9/10; the gradient of log w is taken with
respect to W and b (4160 numbers) and every β_k and η_k. `decoder` sees 200 numbers x tanh(Wθ + b)/8: not linear in θ,
and without large temporaries beside the states. `error` is the distance to the scan's gradient, `off` that to the
scan's in double precision, both over the norm: the scan itself is `off`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import noise
from langevin.core.result import Result, interleaved, ratio
from langevin.core.target import Density
from langevin.evidence.annealing.dais import Annealing, log_weight
from langevin.evidence.base import Normal
from langevin.targets.path import Geometric

BARS = {"memory_ratio": "≤ 1.2", "time_ratio": "≤ 2.5", "gradient_error_K1600": "≤ 1e-5"}
MEMORY = ("scan", "checkpoint", "reversible")
LENGTHS = (16, 100, 400, 1600, 6400)
WIDTH, EXAMPLES, GAMMA, STEP = 64, 200, 0.9, 0.1


class Case(NamedTuple):
    """What a gradient is taken of: the parameters, what is given, and where the chain starts."""

    params: Any
    given: Any
    theta: Any


def log_features(theta, features, y):
    return -0.5 * jnp.sum((y - features @ theta) ** 2) - 0.5 * jnp.sum(theta**2)


def log_decoder(theta, weight, shift, x, y):
    out = x @ jnp.tanh(weight @ theta + shift) / WIDTH**0.5
    return -0.5 * jnp.sum((y - out) ** 2) - 0.5 * jnp.sum(theta**2)


def features(params, given):
    weight, shift = params
    x, y = given
    return Density(log_features, (jnp.tanh(x @ weight + shift[None]) / WIDTH**0.5, y))


def decoder(params, given):
    return Density(log_decoder, (*params, *given))


def case(seed: int) -> Case:
    """The same numbers for both problems."""
    draw = np.random.default_rng(seed).normal
    weight, shift = draw(size=(WIDTH, WIDTH)) / WIDTH**0.5, 0.1 * draw(size=WIDTH)
    x = draw(size=(EXAMPLES, WIDTH))
    y = np.tanh(x @ weight + shift) @ draw(size=WIDTH) / WIDTH**0.5 + draw(size=EXAMPLES)
    return jax.tree.map(lambda u: u.astype(np.float32), Case((weight, shift), (x, y), draw(size=WIDTH)))


def rungs(length: int):
    return np.arange(1, length + 1, dtype=np.float32) / length, np.full(length, STEP, np.float32)


@partial(jax.jit, static_argnames=("target", "memory"))
def gradient(params, rungs, given, theta, key, *, target, memory):
    """∇ log w with respect to the parameters, all β_k and all η_k."""

    def value(params, rungs):
        path = Geometric(Normal(jnp.zeros_like(theta)), target(params, given))
        beta, step_size = rungs
        return log_weight(key, path, Annealing(beta, step_size, GAMMA), theta, memory=memory)

    return jax.grad(value, argnums=(0, 1))(params, rungs)


def apart(a, b) -> float:
    """|a − b| / |b| of two trees."""
    a, b = (np.concatenate([np.ravel(u).astype(np.float64) for u in jax.tree.leaves(x)]) for x in (a, b))
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def truth(target, given: Case, length: int, seed: int):
    """The scan's gradient in double precision, from the same numbers and noise."""
    with jax.enable_x64(True):
        args = jax.tree.map(lambda u: u.astype(np.float64), (given.params, rungs(length), given.given, given.theta))
        return jax.tree.map(np.asarray, gradient(*args, noise.key(seed), target=target, memory="scan"))


def rows(target, length: int, seed: int, repeats: int) -> list[dict]:
    """Bytes, seconds and errors of all three at one length."""
    given = case(seed)
    args = given.params, rungs(length), given.given, given.theta, noise.key(seed)
    programs = {m: gradient.lower(*args, target=target, memory=m).compile() for m in MEMORY}
    grads = {m: program(*args) for m, program in programs.items()}
    exact = truth(target, given, length, seed)
    seconds = interleaved({m: lambda i, program=program: program(*args) for m, program in programs.items()}, repeats)
    return [
        dict(
            problem=target.__name__,
            length=length,
            memory=m,
            kb=programs[m].memory_analysis().temp_size_in_bytes / 1000,
            ms=1e3 * float(np.median(seconds[m])),
            over_scan=ratio(seconds, m, "scan"),
            error=apart(grads[m], grads["scan"]),
            off=apart(grads[m], exact),
        )
        for m in MEMORY
    ]


def run(size: str, seed: int) -> Result:
    repeats = 3 if size == "quick" else 15
    problems = (features,) if size == "quick" else (features, decoder)
    table = [row for target in problems for k in LENGTHS for row in rows(target, k, seed, repeats)]
    at = {(row["problem"], row["length"], row["memory"]): row for row in table}
    kb = lambda problem, k, memory="reversible": at[problem, k, memory]["kb"]
    figures = dict(
        memory_ratio=kb("features", 6400) / kb("features", 16),
        time_ratio=at["features", 1600, "reversible"]["over_scan"],
        gradient_error_K1600=at["features", 1600, "reversible"]["error"],
        gradient_off_K1600=at["features", 1600, "reversible"]["off"],
        gradient_off_scan_K1600=at["features", 1600, "scan"]["off"],
    )
    for problem in (p.__name__ for p in problems):
        end = "" if problem == "features" else f"_{problem}"
        figures[f"memory_naive_over_reversible_K6400{end}"] = kb(problem, 6400, "scan") / kb(problem, 6400)
        figures[f"bytes_a_step{end}"] = 1000 * (kb(problem, 6400) - kb(problem, 16)) / (6400 - 16)
        figures[f"bytes_a_step_scan{end}"] = 1000 * (kb(problem, 6400, "scan") - kb(problem, 16, "scan")) / (6400 - 16)
    return Result("reversible", figures, table, BARS)
