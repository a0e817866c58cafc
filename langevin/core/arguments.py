"""Arguments of the sampling loop, checked at the door: a mistake gets one sentence."""

from __future__ import annotations

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

MOST = 2**31 - 1  # steps of a chain, which are counted in 32 bits


def check_counts(*, draws: int, warmup: int, thin: int, chunk: int) -> None:
    """Refuse counts that are no whole numbers, too small, or more than a chain can count."""
    for name, value, least in (("draws", draws, 1), ("thin", thin, 1), ("chunk", chunk, 1), ("warmup", warmup, 0)):
        if not isinstance(value, (int, np.integer)):
            raise TypeError(f"run: {name} is {value!r}; it must be a whole number.")
        if value < least:
            raise ValueError(f"run: {name} is {value}; it must be {least} or more.")
        if value > MOST:
            raise ValueError(f"run: {name} is {value}; it must be {MOST} or less.")
    steps = (int(warmup) + int(draws)) * int(thin)
    if steps > MOST:
        raise ValueError(f"run: (warmup + draws) × thin is {steps} steps; a chain counts up to {MOST}.")


def check_kinds(key: Any, *, callbacks: Any, store: Any, collect: Any) -> None:
    """Refuse a key, callbacks, a store and a collect of another kind."""
    is_key = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    if not is_key and not (hasattr(key, "dtype") and key.dtype == np.uint32):
        raise TypeError(f"run: key is {repr(key)[:40]}; make one of a seed by langevin.key(0).")
    if callable(callbacks):
        raise TypeError("run: callbacks is a single callback; give a tuple of them: callbacks=(callback,).")
    if store is not None and not isinstance(store, (str, os.PathLike)) and not hasattr(store, "open"):
        raise TypeError(f"run: store is {repr(store)[:40]}; it must be the path of a folder, or a Store.")
    if not callable(collect):
        raise TypeError(f"run: collect is {repr(collect)[:40]}; it must be a function of a state.")
