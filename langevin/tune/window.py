r"""Stan's warm-up: step size and metric together, in windows.

A first stretch of step-size search, then windows of doubling length in which draws are collected and at whose ends
the metric is set to the shrunken variance of all chains' draws,

    M⁻¹ = n/(n + 5) · s² + 10⁻³ · 5/(n + 5),

and a last stretch of step-size search. Pooling chains gives a good metric from short windows. For `NUTS` BlackJAX's
own window adaptation is used, chain by chain, and PerChain(kernel) comes back; a chain whose warm-up failed is
replaced by another, with a warning.

References
----------
Stan Development Team (2024), Stan reference manual, §15.2 (automatic parameter tuning).
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import tree
from langevin.core.advance import MAPPED
from langevin.core.kernel import PerChain, check_fields, refresh, replace, spread
from langevin.core.types import State
from langevin.dynamics.mass import DenseMetric, DiagonalMetric
from langevin.samplers.blackjax import NUTS
from langevin.tune.dual_averaging import seek
from langevin.tune.positions import tuner


@tuner
def window(
    key, kernel, target, states, *, acceptance: float = 0.8, steps: int = 1000, dense: bool = False
) -> tuple[Any, State]:
    """The kernel with step size and metric tuned in `steps` steps, and the states it got to."""
    if isinstance(kernel, NUTS):
        return _nuts(key, kernel, target, states, acceptance, steps, dense)
    check_fields(kernel, ("step_size", "metric"), "window")
    first, *slow, last = lengths(steps)
    keys = jax.random.split(key, 2 + len(slow))
    # a metric of its final kind from the start, and one bound for all stretches: one compiled program
    kernel, bound = replace(kernel, metric=_unit(states.position, dense)), max(first, last, *slow)
    for k, n in zip(keys, (first, *slow, last), strict=True):
        log_step, states, kept = seek(k, kernel, target, states, acceptance, n, bound)
        kernel = replace(kernel, step_size=jnp.exp(jnp.mean(log_step)))
        if n not in (first, last):
            kernel = replace(kernel, metric=_metric(kept, dense))
    return kernel, states


def lengths(steps: int) -> list[int]:
    """Lengths of the stretches: 7.5 % first, 5 % last, doubling windows from 25 between."""
    first, last = max(steps * 75 // 1000, 10), max(steps * 50 // 1000, 10)
    slow, n, left = [], 25, max(steps - first - last, 25)
    while left > 0:
        # a window that would leave less than the next one takes all
        size = left if left < 3 * n else n
        slow.append(size)
        left, n = left - size, 2 * n
    return [first, *slow, last]


def _unit(positions, dense: bool):
    one = jax.tree.map(lambda u: u[0], positions)
    return DenseMetric(jnp.eye(tree.size(one))) if dense else DiagonalMetric(jax.tree.map(jnp.ones_like, one))


def _metric(kept, dense: bool):
    chains, draws = jax.tree.leaves(kept)[0].shape[:2]
    n = chains * draws
    keep, small = n / (n + 5.0), 1e-3 * 5.0 / (n + 5.0)
    if dense:
        flat = np.concatenate([u.reshape(n, -1) for u in jax.tree.leaves(kept)], axis=1)
        cov = np.atleast_2d(np.cov(flat, rowvar=False))
        return DenseMetric(jnp.asarray(keep * cov + small * np.eye(len(cov)), jnp.float32))
    return DiagonalMetric(jax.tree.map(lambda u: jnp.asarray(keep * u.var(axis=(0, 1), ddof=1) + small), kept))


def _nuts(key, kernel, target, states, acceptance, steps, dense):
    chains = jax.tree.leaves(states.position)[0].shape[0]
    k_warm, k_look = jax.random.split(key)
    keys = jax.random.split(k_warm, chains)
    end, step, mass = _kept(*_adapt(keys, kernel, target, states.position, acceptance, steps=steps, dense=dense))
    each = spread(replace(kernel, inverse_mass=None), chains)
    tuned = PerChain(replace(each, step_size=step, inverse_mass=mass))
    moved = states._replace(position=end.position, memory=end)
    again = lambda k, s: refresh(k, s, target)
    return tuned, jax.vmap(again, (0, MAPPED), MAPPED)(jax.random.split(k_look, chains), moved)


def _kept(end, step, mass):
    """Chains whose step size is 0, or whose metric is not finite, get position, step size and metric of others."""
    finite = [np.isfinite(np.asarray(u)).reshape(len(u), -1).all(axis=1) for u in jax.tree.leaves((step, mass, end))]
    good = np.logical_and.reduce([*finite, np.asarray(step) > 0])
    if good.all():
        return end, step, mass
    lost, left = np.flatnonzero(~good), np.flatnonzero(good)
    if not len(left):
        raise ValueError(f"window: the warm-up failed in all {len(good)} chains; start them nearer to the mode.")
    warnings.warn(
        f"window: the warm-up failed in {len(lost)} of {len(good)} chains (the first is {lost[0]}): the step size is 0 "
        "or the metric is not finite; they get position, step size and metric of other chains.",
        stacklevel=5,
    )
    source = np.arange(len(good))
    source[lost] = left[np.arange(len(lost)) % len(left)]
    return jax.tree.map(lambda u: u[source], (end, step, mass))


@partial(jax.jit, static_argnames=("steps", "dense"))
def _adapt(keys, kernel, target, positions, acceptance, *, steps, dense):
    """BlackJAX's window adaptation of every chain: one program for all seeds and numbers."""
    import blackjax

    def one(key, position):
        warm = blackjax.window_adaptation(
            blackjax.nuts,
            lambda x: target.log_density(x) / kernel.temperature,
            is_mass_matrix_diagonal=not dense,
            initial_step_size=kernel.step_size,
            target_acceptance_rate=acceptance,
            max_num_doublings=kernel.max_doublings,
        )
        (end, parameters), _ = warm.run(key, position, steps)
        return end, parameters["step_size"], parameters["inverse_mass_matrix"]

    return jax.vmap(one)(keys, positions)
