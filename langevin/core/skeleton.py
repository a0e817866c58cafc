"""Trees as JSON, arrays as plain bits, and fingerprints: what the store needs to write anything without pickle."""

from __future__ import annotations

import hashlib
import re
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from langevin.core import sharding, tree
from langevin.core.record import is_record, show
from langevin.core.types import PyTree


def skeleton(x: PyTree) -> Any:
    """The shape of a tree as JSON, leaves replaced by their index. Other nodes than dict, list, tuple become a dict of
    leaf paths; `rebuild` cannot restore these, and a structure must be given."""
    leaves, structure = jax.tree.flatten(x)
    return _encode(jax.tree.unflatten(structure, range(len(leaves))))


def _encode(x: Any) -> Any:
    if isinstance(x, int):
        return x
    if x is None:
        return {"none": 0}
    if isinstance(x, dict) and all(isinstance(k, str) for k in x):
        return {"dict": {k: _encode(v) for k, v in x.items()}}
    if type(x) in (list, tuple):
        return {type(x).__name__: [_encode(v) for v in x]}
    return {"paths": dict(zip(tree.names(x), jax.tree.leaves(x), strict=True))}


def rebuild(structure: Any, leaves: list) -> PyTree:
    """The tree a skeleton and its leaves stand for."""
    if isinstance(structure, int):
        return leaves[structure]
    ((kind, body),) = structure.items()
    if kind == "none":
        return None
    if kind in ("dict", "paths"):
        return {k: rebuild(v, leaves) for k, v in body.items()}
    return {"list": list, "tuple": tuple}[kind](rebuild(v, leaves) for v in body)


def fingerprint(x: Any) -> str:
    """A digest of a value's content that is the same in every process: arrays by bytes, functions by name and by
    what they close over."""
    mark = hashlib.sha256()
    _feed_in(mark, x, ())
    return mark.hexdigest()


def _feed_in(mark, x: Any, within: tuple) -> None:
    if is_record(x):
        mark.update(type(x).__name__.encode())
        for name in x.__dataclass_fields__:
            mark.update(name.encode())
            _feed_in(mark, getattr(x, name), within)
    elif isinstance(x, (jax.Array, np.ndarray, np.generic)):
        u = np.asarray(plain(concrete(x)))
        mark.update(f"{u.dtype}{u.shape}".encode())
        mark.update(np.ascontiguousarray(u).data if u.ndim else u.tobytes())
    elif isinstance(x, (dict, list, tuple)):
        mark.update(f"{type(x).__name__}{len(x)}".encode())
        for item in x.items() if isinstance(x, dict) else x:
            _feed_in(mark, item, within)
    elif callable(x) and jax.tree_util.all_leaves([x]):
        mark.update(f"{getattr(x, '__module__', '')}.{show(x)}".encode())
        if x not in within:  # a function may close over itself
            _feed_in(mark, _holds(x), (*within, x))
    elif jax.tree_util.all_leaves([x]):
        mark.update(re.sub(r" at 0x[0-9a-f]+", "", repr(x)).encode())  # an address is another in every process
    else:
        mark.update(type(x).__name__.encode())
        for leaf in jax.tree.leaves(x):
            _feed_in(mark, leaf, within)


def _holds(fn: Any) -> list:
    """What a function carries besides its code: closure, defaults, bound arguments."""
    if isinstance(fn, partial):
        return [fn.func, fn.args, fn.keywords]
    cells = [c.cell_contents for c in getattr(fn, "__closure__", None) or () if _filled(c)]
    wrapped = getattr(fn, "__wrapped__", None)
    return [getattr(fn, "__self__", None), getattr(fn, "__defaults__", None), wrapped, cells]


def _filled(cell) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def concrete(x) -> np.ndarray:
    if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    return sharding.host(x)


def plain(u: np.ndarray) -> np.ndarray:
    """bfloat16 and its kin as bit patterns, which npz can hold."""
    return u.view(f"u{u.dtype.itemsize}") if u.dtype.kind == "V" or "float8" in str(u.dtype) or _odd(u) else u


def _odd(u: np.ndarray) -> bool:
    return str(u.dtype) in ("bfloat16",)


def typed(u: np.ndarray, dtype: str) -> np.ndarray:
    return u if str(u.dtype) == dtype else u.view(np.dtype(getattr(ml_dtypes, dtype)))
