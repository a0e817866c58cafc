"""A step of MCLMC against BlackJAX's, both compiled: its step in a `lax.scan`, vmapped over the same chains.

A Gaussian of 100 unequal scales, and an MLP 8-16-16-2 with a heteroscedastic likelihood on all of 1,000 rows; 10 chains
each, the McLachlan integrator (two gradients a step), the same step size, length and number of steps, and in both the
log density of every step is kept. Keys are those each library would use by itself: ours the hash generator of
`core.noise`, theirs JAX's threefry; the figures `…_same_keys` give BlackJAX our keys too, and so leave the generator
out of it. BlackJAX is in the extra `bench`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import numpy as np

from langevin.core import noise
from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.result import Result, interleaved, ratio
from langevin.nets.bnn import bnn
from langevin.nets.mlp import MLP
from langevin.samplers.mclmc import MCLMC
from langevin.targets.zoo import Gaussian
from langevin_lab.benchmarks.overhead import log_density

FIGURES = {"blackjax_over_ours_{}": "blackjax", "blackjax_over_ours_{}_same_keys": "blackjax with our keys"}
NEEDS = ("blackjax",)
BARS = {name.format(problem): "≥ 1" for problem in ("gaussian", "bnn") for name in FIGURES}
CHAINS = 10


def gaussian(seed: int):
    """100 unequal scales, and exact draws of it."""
    target = Gaussian.conditioned(100, 100.0)
    return target, target.exact(jax.random.key(seed), CHAINS)


def network(seed: int):
    """Random rows for a small net: the arithmetic of full-batch MILE without its data."""
    k_x, k_y, k_start = jax.random.split(jax.random.key(seed), 3)
    data = jax.random.normal(k_x, (1000, 8)), jax.random.normal(k_y, (1000,))
    model = bnn(partial(MLP, (8, 16, 16, 2)), data, kind="heteroscedastic")
    return model.target, model.starts(k_start, CHAINS)


def ours(target, start, kernel: MCLMC, steps: int, impl: str) -> Callable[[int], object]:
    states = begin_all(noise.key(0, impl=impl), kernel, target, start)
    return lambda i: advance(
        noise.key(i, impl=impl), kernel, target, states, length=steps, collect=log_density, n=np.int32(steps)
    )


def theirs(target, start, kernel: MCLMC, steps: int, impl: str) -> Callable[[int], object]:
    import blackjax

    peer = blackjax.mclmc(target.log_density, L=kernel.length, step_size=kernel.step_size)
    begin = jax.vmap(peer.init)(start, jax.random.split(noise.key(0, impl=impl), CHAINS))

    def one(state, key):
        state, info = peer.step(key, state)
        return state, info.logdensity

    @jax.jit
    @jax.vmap
    def chain(key, state):
        return jax.lax.scan(one, state, jax.random.split(key, steps))

    return lambda i: chain(jax.random.split(noise.key(i, impl=impl), CHAINS), begin)


def run(size: str, seed: int) -> Result:
    repeats = 3 if size == "quick" else 15
    figures: dict[str, float] = {}
    table = []
    for name, problem, kernel in (
        ("gaussian", gaussian, MCLMC(1.0, 10.0)),
        ("bnn", network, MCLMC(1e-3, 10.0)),
    ):
        steps = {"quick": 50, "cpu": 1000, "gpu": 5000}[size] // (1 if name == "gaussian" else 10)
        target, start = problem(seed)
        runs = {
            "ours": ours(target, start, kernel, steps, "hash"),
            "blackjax": theirs(target, start, kernel, steps, "threefry"),
            "ours with threefry": ours(target, start, kernel, steps, "threefry"),
            "blackjax with our keys": theirs(target, start, kernel, steps, "hash"),
        }
        seconds = interleaved(runs, repeats)
        for method, times in seconds.items():
            us = 1e6 * float(np.median(times)) / steps
            table.append(dict(problem=name, method=method, us_per_step=us, over_ours=ratio(seconds, method, "ours")))
        figures |= {figure.format(name): ratio(seconds, method, "ours") for figure, method in FIGURES.items()}
    return Result("mclmc", figures, table, BARS)
