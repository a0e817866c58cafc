"""Step size, metric and length of a kernel found from positions: what `sample(tune="auto")` calls.

Each kernel has the tuner that its own papers ask for:

    NUTS, HMC                                step size to an acceptance of 0.8, and metric, in windows (`tune.window`)
    MALA                                     the same, to 0.574, which is best in high dimension
    GHMC                                     the same, to 0.9, for a rejection turns the chain around
    MCLMC                                    step size by energy error, diagonal metric, length (`tune.tune_mclmc`)
    MAMS                                     step size to an acceptance of 0.9, and length (`tune.tune_mams`), in the
                                             metric of the curvature's diagonal (`tune.curvature`)
    SMILE                                    scale, noise and step size on mini-batches (`tune.whiten`)
    SGLD, PSGLD, SGHMC, SGNHT, Underdamped   step size and scales by curvature and gradient noise (`tune.curvature`)

A kernel made of a kernel (Guard, Thin, EMA, Cyclical …) is tuned inside and begins where the tuning ended.

References
----------
Roberts & Rosenthal (1998), Optimal scaling of discrete approximations to Langevin diffusions, thm. 3 (0.574).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax

from langevin.core.advance import chains_of
from langevin.core.begin import begin_all
from langevin.core.kernel import PerChain, Wrapper, admit, replace, spread
from langevin.core.types import Key, PyTree, State
from langevin.dynamics.mass import IdentityMetric
from langevin.samplers.blackjax import NUTS
from langevin.samplers.ghmc import GHMC
from langevin.samplers.hmc import HMC
from langevin.samplers.mala import MALA
from langevin.samplers.mams import MAMS
from langevin.samplers.mclmc import MCLMC
from langevin.samplers.smile import SMILE
from langevin.tune.curvature import RULES, curvature, diagonal, jacobi
from langevin.tune.dual_averaging import dual_averaging
from langevin.tune.mclmc import tune_mclmc
from langevin.tune.trajectory import needs, tune_mams
from langevin.tune.whiten import whiten
from langevin.tune.window import window

Tune = Callable[[Key, Any, Any, Any], tuple[Any, State]]


def _mams(key: Key, kernel: Any, target: Any, states: State | PyTree) -> tuple[Any, State]:
    """MAMS in a diagonal metric of the curvature where it first stands, and of that where it then comes to."""
    if not isinstance(kernel.metric, IdentityMetric):
        return tune_mams(key, kernel, target, states)
    k_begin, *keys = jax.random.split(key, 5)
    if not isinstance(states, State):
        states = begin_all(k_begin, kernel, target, states)
    for k_look, k_tune, steps in ((*keys[:2], 500), (*keys[2:], 1000)):
        kernel = replace(kernel, metric=jacobi(diagonal(k_look, target, states)))
        kernel, states = tune_mams(k_tune, kernel, target, states, steps=steps)
    return kernel, states


def _windows(acceptance: float, key: Key, kernel: Any, target: Any, states: State | PyTree) -> tuple[Any, State]:
    """Metric and step size in windows, then the step size alone: the last window is too short to meet the rate."""
    k_window, k_step = jax.random.split(key)
    kernel, states = window(k_window, kernel, target, states, acceptance=acceptance)
    return dual_averaging(k_step, kernel, target, states, acceptance=acceptance)


TUNERS: dict[type, Tune] = {
    NUTS: window,
    HMC: partial(_windows, 0.8),
    MALA: partial(_windows, 0.574),
    GHMC: partial(_windows, 0.9),
    MCLMC: partial(tune_mclmc, diagonal=True),
    MAMS: _mams,
    SMILE: whiten,
    **dict.fromkeys(RULES, curvature),
}
WHOLE = (MCLMC,)  # kernels that move on mini-batches and can only be tuned on all data


def auto(key: Key, kernel: Any, target: Any, states: State | PyTree) -> tuple[Any, State]:
    """The kernel tuned by the tuner of its kind, and the states it got to, from states or positions."""
    admit(kernel, target, "tune")
    if isinstance(kernel, Wrapper):
        return _inside(key, kernel, target, states)
    name = type(kernel).__name__
    if type(kernel) not in TUNERS:
        known = ", ".join(cls.__name__ for cls in TUNERS)
        raise TypeError(f"tune: there is no tuner for {name}; set its step size by hand, or take one of {known}.")
    needs("tune", kernel, ("step_size",))
    if target.stochastic and isinstance(kernel, WHOLE):
        raise ValueError(
            f"tune: {name} is tuned by its energy error, which mini-batches hide; take batch=None or SMILE."
        )
    if not target.stochastic and isinstance(kernel, SMILE):
        raise ValueError(
            "tune: SMILE is tuned by the noise of mini-batches, and there is none; take MCLMC, or a batch."
        )
    return TUNERS[type(kernel)](key, kernel, target, states)


def _inside(key: Key, kernel: Any, target: Any, states: State | PyTree) -> tuple[Any, State]:
    """The wrapper around its tuned kernel, begun at the positions where tuning ended."""
    name = type(kernel).__name__
    if isinstance(kernel, PerChain) or kernel.group != 1:
        raise TypeError(f"tune: {name} is not tuned as a whole; tune the kernel inside it first, and wrap what comes.")
    k_tune, k_begin = jax.random.split(key)
    positions = states.position if isinstance(states, State) else states
    tuned, states = auto(k_tune, kernel.kernel, target, positions)
    if isinstance(tuned, PerChain):
        wide = spread(replace(kernel, kernel=()), chains_of(states))
        kernel = PerChain(replace(wide, kernel=tuned.kernel))
    else:
        kernel = replace(kernel, kernel=tuned)
    return kernel, begin_all(k_begin, kernel, target, states.position)
