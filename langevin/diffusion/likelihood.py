r"""log p(x) of a diffusion model, by the change of variables along its probability flow.

    log p(x) = log prior(x_T) + ∫ ∇·F(x_t, t) dt,      dx/dt = F = f − ½ g² s,   from x at `cut` to x_T at `end`.

The part of f, a(t) d, is integrated in closed form: d ln(m_T/m_cut). That of the score is exact (d derivatives a look,
for small d), or Hutchinson's estimate vᵀ∇s v with signs v fixed along a solution; all probes share one solution, and
their spread gives the standard error. What is computed is the density of x at the time `cut`, in nats, larger being
likelier.

Images of L grey values, x in a range of width W, each spread evenly over its bin of width W/L (`dequantised`), have

    log P(image) ≥ E log p(x) + d ln(W/L),      bits a dimension = −that/(d ln 2).

References
----------
Song, Sohl-Dickstein, Kingma, Kumar, Ermon & Poole (2021), Score-based generative modeling through SDEs, eq. (39).
Grathwohl, Chen, Bettencourt, Sutskever & Duvenaud (2019), FFJORD, §3.1.1 (one probe for a solution).
Theis, van den Oord & Bethge (2016), A note on the evaluation of generative models, §3.1 (dequantisation).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from langevin.core import noise
from langevin.core.record import as_record, positive, record, static
from langevin.core.types import Key
from langevin.diffusion.flow import solved
from langevin.diffusion.times import check_choice


class LogProb(NamedTuple):
    """value: log p in nats, one a row; stderr: over probes (0 if exact, inf with one probe); steps: of the solver."""

    value: jax.Array
    stderr: jax.Array
    steps: jax.Array


@record
class _Options:
    rtol: float = positive(default=1e-5)
    atol: float = positive(default=1e-5)
    solver: str = static(default="Tsit5")
    most: int = static(default=4096)


def log_prob(
    key: Key | None,
    process: Any,
    score: Callable,
    x,
    *,
    divergence: Literal["exact", "hutchinson"] = "exact",
    probes: int = 1,
    rtol: float = 1e-5,
    atol: float = 1e-5,
    solver: str = "Tsit5",
    condition: tuple = (),
    block: int | None = None,
) -> LogProb:
    """log p of every row of x (n, …), in nats.

    key: for the probes; None if exact. block: rows at a time, if memory is short.
    """
    check_choice("log_prob", "divergence", divergence, ("exact", "hutchinson"))
    if divergence == "hutchinson" and (key is None or probes < 1):
        raise ValueError("log_prob: Hutchinson's estimate needs a key and at least one probe.")
    x = jnp.asarray(x)
    if x.ndim < 2:
        raise ValueError(f"log_prob: x has shape {x.shape}; pass rows (n, …), one row as x[None].")
    bad = ~np.isfinite(np.asarray(x)).reshape(len(x), -1).all(1)
    if bad.any():
        raise ValueError(f"log_prob: row {int(np.flatnonzero(bad)[0])} has values that are not finite; drop it.")
    keys = jax.random.split(jax.random.key(0) if key is None else key, x.shape[0])
    options = _Options(rtol, atol, solver)
    exact = divergence == "exact"
    return _log_prob(keys, process, as_record(score), x, condition, options, probes=0 if exact else probes, block=block)


@partial(jax.jit, static_argnames=("probes", "block"))
def _log_prob(keys, process, score, x, condition, options, *, probes, block):
    words, wrap = noise.words(keys)

    def one(row):
        word, x, condition = row
        v = directions(wrap(word), x, probes)
        end, cut = process.end * jnp.ones(()), process.cut * jnp.ones(())

        def field(t, state):
            x, _ = state
            half = 0.5 * process.spread(t, x) ** 2
            push, divergences = turned(lambda x: half * score(x, t, *condition), x, v)
            return process.drift(x, t) - push, -(divergences if probes else jnp.sum(divergences))

        start = (x, jnp.zeros(probes) if probes else jnp.zeros(()))
        (last, grown), stats = solved(field, start, cut, end, options)
        whole = process.growth(end, x.size) - process.growth(cut, x.size)
        value = process.prior_log_prob(last) + whole + jnp.mean(grown)
        if not probes:
            return LogProb(value, jnp.zeros(()), stats["num_steps"])
        spread = jnp.std(grown, ddof=1) / math.sqrt(probes) if probes > 1 else jnp.asarray(jnp.inf)
        return LogProb(value, spread, stats["num_steps"])

    rows = (words, x, condition)
    return jax.vmap(one)(rows) if block is None else lax.map(one, rows, batch_size=block)


def directions(key: Key, x, probes: int):
    """Signs (probe, …), or with no probes the coordinate axes."""
    if not probes:
        return jnp.eye(x.size, dtype=x.dtype).reshape(x.size, *x.shape)
    return noise.like(key, jnp.zeros((probes, *x.shape), x.dtype), "rademacher")


def turned(score, x, v):
    """s(x), and vᵀ∇s v for every v."""
    s, push = jax.linearize(score, x)
    return s, jax.vmap(lambda v: jnp.sum(v * push(v)))(v)


def bits_per_dim(nats, dimension: int, *, dequantised_levels: int, width: float = 2.0):
    """Bits a dimension of images, from log p in nats of their dequantised form in a range of `width` ([−1, 1]: 2)."""
    if dequantised_levels < 2:
        raise ValueError(f"bits_per_dim: dequantised_levels is {dequantised_levels}; it must be 2 or more.")
    return -(nats / dimension + math.log(width / dequantised_levels)) / math.log(2)
