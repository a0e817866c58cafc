r"""Bases: where annealing begins, a normalised distribution with draws.

A base is a Target with `log_density`, which integrates to one, and `exact(key, n)`, n independent draws with a leading
axis: `Normal` here, any target of the zoo whose `log_z` is 0, or the prior of a model. Between base q and target p̃ lies
the path q^{1−β} p̃^β (`targets.path.Geometric`), and Z = ∫ p̃.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax import lax

from langevin.core import noise, tree
from langevin.core.record import record
from langevin.core.target import Exact
from langevin.core.types import Key, PyTree, Scalar

LOG_2PI = 1.8378770664093453
BLOCK = 256  # positions evaluated together


@runtime_checkable
class Base(Protocol):
    """A normalised distribution that can be drawn from."""

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


def check_base(base: Any) -> Any:
    """Refuse what cannot be drawn from."""
    if not isinstance(base, Base):
        raise TypeError(
            f"evidence: the base, {type(base).__name__}, has no `exact(key, n)`: annealing begins with draws of a "
            "normalised distribution; an improper prior has none. Pass Normal(mean, scale) or another proper base."
        )
    return base


def draw_starts(key: Key, base: Base, target: Any, particles: int) -> PyTree:
    """Draws of the base; refuses a target whose log density is finite at none of the first."""
    start = check_base(base).exact(key, particles)
    few = jax.tree.map(lambda u: u[:64], start)
    value = jax.jit(_values)(target, few)
    if not isinstance(value, jax.core.Tracer) and not bool(jnp.any(jnp.isfinite(value))):
        raise ValueError(
            f"evidence: the log density of the target is {float(value[0])} at each of the first {len(value)} draws of "
            "the base; take a base whose draws the target can explain."
        )
    return start


@partial(jax.jit, static_argnames="n")
def draw(key: Key, base: Base, n: int) -> PyTree:
    """n draws of the base, by one program."""
    return base.exact(key, n)


@jax.jit
def log_ratios(target: Any, base: Any, positions: PyTree) -> jax.Array:
    """log p̃ − log q at every position (draw, …)."""
    one = lambda x: jnp.asarray(target.log_density(x) - base.log_density(x))
    return lax.map(one, positions, batch_size=BLOCK)


def _values(target, positions):
    return lax.map(target.log_density, positions)
