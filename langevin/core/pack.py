"""Many single numbers as one array of words, so that a loop writes once where it would write ten times.

A step carries and reports a dozen scalars (counts, log density, acceptance …). On an accelerator each is a launch
of its own, which on an H200 costs more than the noise of a sampler; as the words of one array they cost one. Only
whole 4-byte numbers and booleans are packed, bit for bit; the rest of a tree passes through.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from langevin.core.types import PyTree


class Packing:
    """How trees of one structure are packed. `like`: such a tree, or its shapes."""

    def __init__(self, like: PyTree):
        leaves, self.structure = jax.tree.flatten(like)
        leaves = [u if hasattr(u, "dtype") else jnp.asarray(u) for u in leaves]
        self.dtypes = [u.dtype for u in leaves]
        self.small = [u.shape == () and (u.dtype == jnp.bool_ or _is_word(u.dtype)) for u in leaves]

    def pack(self, x: PyTree) -> tuple[jax.Array, list]:
        """(words, the other leaves)."""
        leaves = [jnp.asarray(u) for u in jax.tree.leaves(x)]
        words = [_to_word(u) for u, small in zip(leaves, self.small, strict=True) if small]
        others = [u for u, small in zip(leaves, self.small, strict=True) if not small]
        return (jnp.stack(words) if words else jnp.zeros(0, jnp.uint32)), others

    def unpack(self, packed: tuple[jax.Array, list]) -> PyTree:
        """The tree again; leading axes that a loop has added to all leaves are kept."""
        words, others = packed
        place, rest, leaves = 0, iter(others), []
        for dtype, small in zip(self.dtypes, self.small, strict=True):
            leaves.append(_from_word(words[..., place], dtype) if small else next(rest))
            place += small
        return jax.tree.unflatten(self.structure, leaves)


def _is_word(dtype) -> bool:
    return dtype in (jnp.float32, jnp.int32, jnp.uint32)


def _to_word(u):
    return u.astype(jnp.uint32) if u.dtype in (jnp.bool_, jnp.uint32) else lax.bitcast_convert_type(u, jnp.uint32)


def _from_word(u, dtype):
    if dtype == jnp.bool_:
        return u != 0
    return u if dtype == jnp.uint32 else lax.bitcast_convert_type(u, dtype)
