"""Arrays of any kind as plain ones, which every file format holds: keys as words, bfloat16 as bit patterns."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from langevin.core import sharding
from langevin.core.types import PyTree


def is_key(x: Any) -> bool:
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def to_plain(x: Any) -> np.ndarray:
    """An array as npz can hold it: keys as words; bfloat16 and its kin as bit patterns."""
    u = np.asarray(sharding.host(jax.random.key_data(x) if is_key(x) else x))
    return u.view(f"u{u.dtype.itemsize}") if u.dtype.kind == "V" or hasattr(ml_dtypes, str(u.dtype)) else u


def from_plain(u: np.ndarray, dtype: str) -> np.ndarray:
    """What `to_plain` was given, of a dtype by its name."""
    if str(u.dtype) == dtype:
        return u
    return u.view(np.dtype(getattr(ml_dtypes, dtype)))


def flatten(x: PyTree) -> list[np.ndarray]:
    """The leaves of a tree as plain arrays, for `unflatten`."""
    return [to_plain(u) for u in jax.tree.leaves(x)]


def unflatten(arrays: list[np.ndarray], like: PyTree) -> PyTree:
    """Plain arrays on the structure of a tree, each of the kind and dtype that it has there."""
    leaves, structure = jax.tree.flatten(like)
    return jax.tree.unflatten(structure, [_as(u, leaf) for u, leaf in zip(arrays, leaves, strict=True)])


def _as(u: np.ndarray, like: Any) -> Any:
    if is_key(like):
        return jax.random.wrap_key_data(jnp.asarray(u), impl=jax.random.key_impl(like))
    if not isinstance(like, jax.Array):
        return u[()] if u.ndim == 0 else u
    return jnp.asarray(from_plain(u, str(like.dtype)))
