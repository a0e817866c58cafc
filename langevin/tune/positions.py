"""What every tuner has in common: it takes positions or states, and decomposes matrices with one thread.

JAX calls a threaded LAPACK on the CPU. Where another process keeps a core busy its threads wait for one another: with
one busy neighbour each QR decomposition of `fisher` took 5.8 s in place of 0.05 s.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import jax
from threadpoolctl import threadpool_limits

from langevin.core.begin import begin_all
from langevin.core.kernel import admit
from langevin.core.types import Key, State

P = ParamSpec("P")
R = TypeVar("R")


def tuner(tune: Callable[Concatenate[Key, Any, Any, Any, P], R]) -> Callable[Concatenate[Key, Any, Any, Any, P], R]:
    """A tuner (key, kernel, target, states, …), whose states may be given as positions with a leading chain axis."""

    @wraps(tune)
    def from_either(key: Key, kernel: Any, target: Any, states: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        key, states = opened(key, kernel, target, states, tune.__name__)
        with threadpool_limits(1, user_api="blas"):
            return jax.block_until_ready(tune(key, kernel, target, states, *args, **kwargs))

    return from_either


def opened(key: Key, kernel: Any, target: Any, states: Any, who: str) -> tuple[Key, State]:
    """States of positions, or the states themselves, and the key for what follows."""
    if isinstance(states, State):
        return key, states
    admit(kernel, target, who)
    k_begin, key = jax.random.split(key)
    return key, begin_all(k_begin, kernel, target, states)
