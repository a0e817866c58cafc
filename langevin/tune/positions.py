"""Tuners take positions or states: positions are made states of the kernel first."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import jax

from langevin.core.kernel import admit
from langevin.core.run import begin_all
from langevin.core.types import Key, State

P = ParamSpec("P")
R = TypeVar("R")


def tuner(tune: Callable[Concatenate[Key, Any, Any, Any, P], R]) -> Callable[Concatenate[Key, Any, Any, Any, P], R]:
    """A tuner (key, kernel, target, states, …), whose states may be given as positions with a leading chain axis."""

    @wraps(tune)
    def from_either(key: Key, kernel: Any, target: Any, states: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        if not isinstance(states, State):
            admit(kernel, target, tune.__name__)
            k_begin, key = jax.random.split(key)
            states = begin_all(k_begin, kernel, target, states)
        return tune(key, kernel, target, states, *args, **kwargs)

    return from_either
