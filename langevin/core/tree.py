"""Vector-space operations on pytrees. Results keep the dtype of the tree they add to."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from langevin.core.types import PyTree, Scalar


def scale(a, x: PyTree) -> PyTree:
    """a·x."""
    return jax.tree.map(lambda u: (a * u).astype(u.dtype), x)


def add(x: PyTree, y: PyTree) -> PyTree:
    """x + y."""
    return jax.tree.map(lambda u, v: (u + v).astype(u.dtype), x, y)


def sub(x: PyTree, y: PyTree) -> PyTree:
    """x − y."""
    return jax.tree.map(lambda u, v: (u - v).astype(u.dtype), x, y)


def mul(x: PyTree, y: PyTree) -> PyTree:
    """x∘y, coordinate by coordinate."""
    return jax.tree.map(lambda u, v: (u * v).astype(v.dtype), x, y)


def axpy(a, x: PyTree, y: PyTree) -> PyTree:
    """a·x + y."""
    return jax.tree.map(lambda u, v: (a * u + v).astype(v.dtype), x, y)


def dot(x: PyTree, y: PyTree) -> Scalar:
    """Σ x∘y over all leaves, in float32 or better."""
    parts = jax.tree.map(lambda u, v: jnp.sum(_wide(u) * _wide(v)), x, y)
    return sum(jax.tree.leaves(parts), jnp.zeros(()))


def size(x: PyTree) -> int:
    """How many numbers the tree holds."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(x))


def zeros_like(x: PyTree) -> PyTree:
    return jax.tree.map(jnp.zeros_like, x)


def fill(value: PyTree, like: PyTree) -> PyTree:
    """A number as a tree like the other; a tree as it is."""
    number = jax.tree_util.all_leaves([value]) and jnp.ndim(value) == 0
    return jax.tree.map(lambda _: value, like) if number else value


def where(condition: Scalar, x: PyTree, y: PyTree) -> PyTree:
    """x if the scalar condition holds, else y; keys and integers included."""
    return jax.tree.map(lambda u, v: jnp.where(condition, u, v), x, y)


def finite(x: PyTree) -> Scalar:
    """Whether every inexact number in the tree is finite."""
    checks = [jnp.all(jnp.isfinite(u)) for u in jax.tree.leaves(x) if jnp.issubdtype(u.dtype, jnp.inexact)]
    return jnp.all(jnp.stack(checks)) if checks else jnp.asarray(True)


def names(x: PyTree) -> list[str]:
    """The path of every leaf, as a person would write it: `layers.0.weight`."""
    return [
        jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in jax.tree_util.tree_leaves_with_path(x)
    ]


def _wide(u):
    return u.astype(jnp.promote_types(u.dtype, jnp.float32))
