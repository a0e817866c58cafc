r"""The floors λ of a metric made of gradients, coordinate by coordinate.

    λ_i = c · RMS(g_i),

over the chains and a stretch of their run, then frozen. The metric D = (g² + λ²)^−½ changes over a distance λ/|H|, and
a step must be shorter than that: 2h/λ < (λ/|H|)², or h < λ³/2H². At stationarity RMS(g) ≈ √|H|, so this λ is as
small as the step size wants it, in every coordinate. On a mini-batched target g is what the metric sees, its own batch.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from langevin.core import tree
from langevin.core.advance import advance
from langevin.core.kernel import replace
from langevin.core.types import Key, PyTree, State
from langevin.tune.positions import tuner


@tuner
def metric_floor(
    key, kernel, target, states, *, share: float = 0.5, steps: int = 400, looks: int = 20
) -> tuple[Any, State]:
    """The kernel with λ_i = share · RMS(g_i) measured along `steps` steps, and the states it got to."""
    if not share > 0:
        raise ValueError(f"metric_floor: share is {share}; it must be positive, about 0.3 to 1.")
    fraction = kernel.own_batch(target) or 1.0
    k_first, *keys = jax.random.split(key, looks + 1)
    kernel = _with(kernel, roots(squares(k_first, target, states, fraction=fraction), share))
    total = None
    for k in keys:
        k_run, k_look = jax.random.split(k)
        states = advance(k_run, kernel, target, states, length=1, thin=max(1, steps // looks)).states
        here = squares(k_look, target, states, fraction=fraction)
        total = here if total is None else tree.add(total, here)
    return _with(kernel, roots(tree.scale(1 / looks, total), share)), states


@partial(jax.jit, static_argnames="fraction")
def squares(key: Key, target: Any, states: State, *, fraction: float) -> PyTree:
    """The mean of g² over chains, each on a batch of its own."""
    chains = jax.tree.leaves(states.position)[0].shape[0]

    def one(key, feed, position):
        batch, _ = target.draw(key, feed, fraction=fraction)
        return target.evaluate(batch, position).grad

    grads = jax.vmap(one)(jax.random.split(key, chains), states.feed, states.position)
    return jax.tree.map(lambda g: jnp.mean(g**2, axis=0), grads)


def roots(square: PyTree, share: float) -> PyTree:
    """share · √, not below a thousandth of the leaf's own: a dead unit has no gradient."""
    least = lambda u: jnp.maximum(u, 1e-6 * jnp.mean(u) + jnp.finfo(u.dtype).tiny)
    return jax.tree.map(lambda u: share * jnp.sqrt(least(u)), square)


def _with(kernel: Any, floor: PyTree) -> Any:
    own = {f.name for f in dataclasses.fields(kernel)}
    if "floor" in own:
        return replace(kernel, floor=floor)
    if "metric" not in own or "floor" not in {f.name for f in dataclasses.fields(kernel.metric)}:
        name = type(kernel).__name__
        raise ValueError(f"metric_floor: {name} has no floor to set; take PSGLD or a metric with one.")
    return replace(kernel, metric=replace(kernel.metric, floor=floor))
