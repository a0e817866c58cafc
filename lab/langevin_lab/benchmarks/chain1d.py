"""10⁷ steps of one 1-D SGLD chain on N(0, 1) with its histogram: h = 1e-4, bins of 0.1 on [−4, 4] and two tails.

Total variation is between the histogram and the normal's bin probabilities. One chain of 10⁷ such steps is about 500
relaxation times long, so its own sampling error is a total variation of about 0.04 (notes on adaptive samplers, §2.2).
"""

from __future__ import annotations

import time

import jax.numpy as jnp
import numpy as np

from langevin.audit import bins
from langevin.core import noise
from langevin.core.result import Result
from langevin.core.run import run as sample
from langevin.core.target import Density
from langevin.samplers.sgld import SGLD

BARS = {"seconds_1e7": "≤ 5 on 2 cores"}
BAR_SIZES = ("cpu",)


def normal(x):
    """log N(0, 1) up to a constant."""
    return -0.5 * jnp.sum(x**2)


class Histogram:
    """A callback that counts draws into bins, so that none need be kept."""

    def __init__(self):
        self.counts = np.zeros(len(bins.NORMAL), np.int64)

    def __call__(self, progress):
        self.counts += bins.counts(progress.kept)
        return progress


def run(size: str, seed: int) -> Result:
    steps, chunk = (10**7, 10**6) if size != "quick" else (10**5, 10**5)
    target, start = Density(normal), jnp.zeros((1, 1))
    seconds, tv = {}, {}
    for kind in ("normal", "rademacher"):
        kernel = SGLD(1e-4, noise=kind)
        sample(noise.key(seed), kernel, target, start, draws=chunk, chunk=chunk)  # compile
        histogram = Histogram()
        began = time.perf_counter()
        sample(noise.key(seed), kernel, target, start, draws=steps, chunk=chunk, callbacks=(histogram,))
        seconds[kind] = time.perf_counter() - began
        tv[kind] = bins.tv(histogram.counts, bins.NORMAL)
    figures = dict(seconds_1e7=seconds["normal"] * 10**7 / steps, tv_target=tv["normal"])
    table = [dict(method=f"sgld {k}", seconds=seconds[k], tv_target=tv[k], steps=steps) for k in seconds]
    return Result("chain1d", figures, table, BARS)
