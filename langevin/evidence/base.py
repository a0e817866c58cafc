r"""Bases: where annealing begins, a normalised law with draws.

A base is a Target with `log_density`, which integrates to one, and `exact(key, n)`, n independent draws with a leading
axis: `Normal` here, any target of the zoo whose `log_z` is 0, or the prior of a model. Between base q and target p̃ lies
the path q^{1−β} p̃^β (`targets.path.Geometric`), and Z = ∫ p̃.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from langevin.core import noise, tree
from langevin.core.record import record
from langevin.core.target import Exact
from langevin.core.types import Key, PyTree, Scalar

LOG_2PI = 1.8378770664093453


@runtime_checkable
class Base(Protocol):
    """A normalised law that can be drawn from."""

    def log_density(self, position: PyTree) -> Scalar: ...
    def exact(self, key: Key, n: int) -> PyTree: ...


@record
class Normal(Exact):
    """Independent normals in the shape of a position.

    mean: a tree like the position.
    scale: standard deviations: a number, or a tree like the position with a number or an array for every leaf.
    """

    mean: PyTree
    scale: Any = 1.0

    def log_density(self, position):
        def one(x, m, s):
            s = jnp.broadcast_to(s, x.shape)
            return jnp.sum(-0.5 * ((x - m) / s) ** 2 - jnp.log(s) - 0.5 * LOG_2PI)

        parts = jax.tree.map(one, position, self.mean, tree.fill(self.scale, self.mean))
        return sum(jax.tree.leaves(parts), jnp.zeros(()))

    def exact(self, key: Key, n: int) -> PyTree:
        wide = jax.tree.map(lambda m: jnp.broadcast_to(m, (n, *jnp.shape(m))), self.mean)
        one = lambda m, s, z: m + jnp.broadcast_to(s, m.shape[1:])[None] * z
        return jax.tree.map(one, wide, tree.fill(self.scale, self.mean), noise.like(key, wide))


def checked(base: Any, target: Any = None) -> Any:
    """Refuse what cannot be drawn from, or a target that is not finite anywhere the base looks."""
    if not isinstance(base, Base):
        raise TypeError(
            f"evidence: the base, {type(base).__name__}, has no `exact(key, n)`: annealing begins with draws of a "
            "normalised law; an improper prior has none. Pass Normal(mean, scale) or another proper base."
        )
    return base


def began(key: Key, base: Base, target: Any, particles: int) -> PyTree:
    """Draws of the base at which the target can be looked at: a −∞ everywhere is told, not annealed."""
    start = checked(base).exact(key, particles)
    few = jax.tree.map(lambda u: u[:64], start)
    value = jax.jit(_values)(target, few)
    if not isinstance(value, jax.core.Tracer) and not bool(jnp.any(jnp.isfinite(value))):
        raise ValueError(
            f"evidence: the log density of the target is {float(value[0])} at each of the first {len(value)} draws of "
            "the base; take a base whose draws the target can explain."
        )
    return start


def examples(target: Any) -> int:
    """How many examples an evaluation of all data looks at: 1 where there are none."""
    return int(getattr(target, "n", getattr(getattr(target, "target", None), "n", 1)))


def _values(target, positions):
    return jax.lax.map(target.log_density, positions)
