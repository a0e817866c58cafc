r"""Constrained parameters by change of variables: the sampler moves u, free in ℝ^m; the target sees x = f(u).

    log q(u) = log p(f(u)) + log |det ∂f/∂u|,      ∇log q = (∂f/∂u)ᵀ ∇log p + ∇log |det ∂f/∂u|.

Only the first term is estimated from a mini-batch, so the volume is counted once and estimates stay unbiased.
The maps:

    Real                x = u
    Positive            x = e^u
    Interval(a, b)      x = a + (b − a) σ(u)
    Simplex             x_i = z_i Π_{j<i} (1 − z_j),  z_i = σ(u_i − log(k − i)),  x_k the rest; u = 0 is uniform
    Ordered             x_1 = u_1,  x_i = x_{i−1} + e^{u_i}

Simplex and Ordered act on the last axis. Every log-determinant is written in u (log σ, never log(1 − σ)) and is
finite wherever u is. Where float32 would round f(u) to the border of its domain (0, a, b) or to ∞, the value stops
just inside and the derivative goes on. A density on the simplex is one of its first k − 1 weights, as is usual.

References
----------
Stan Development Team, Stan Reference Manual, ch. Constraint Transforms (stick-breaking, ordered).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from langevin.core import tree
from langevin.core.record import is_record, record
from langevin.core.target import Derived
from langevin.core.types import Batch, Eval, PyTree, Scalar

LOW, HIGH = -87.0, 80.0  # e^u is a normal float32 between these, with room for sums


@runtime_checkable
class Bijection(Protocol):
    """A smooth map of free numbers u onto x and back; log_det is summed over everything in u."""

    def forward(self, u: jax.Array) -> jax.Array: ...
    def inverse(self, x: jax.Array) -> jax.Array: ...
    def log_det(self, u: jax.Array) -> Scalar: ...


@record
class Real:
    """Free numbers: x = u."""

    def forward(self, u):
        return u

    def inverse(self, x):
        return x

    def log_det(self, u):
        return jnp.zeros((), jnp.result_type(u))


@record
class Positive:
    """Positive numbers: x = e^u."""

    def forward(self, u):
        return _exp(u)

    def inverse(self, x):
        return jnp.log(x)

    def log_det(self, u):
        return jnp.sum(u)


@record
class Interval:
    """Numbers between two bounds: x = low + (high − low) σ(u).

    low: the lower bound.
    high: the upper bound.
    """

    low: Any = 0.0
    high: Any = 1.0

    def forward(self, u):
        dtype, width = jnp.result_type(u), self.high - self.low
        # from the nearer end, so that both tails keep their digits
        x = jnp.where(u < 0, self.low + width * jax.nn.sigmoid(u), self.high - width * jax.nn.sigmoid(-u))
        small = jnp.finfo(dtype)
        least = self.low + jnp.maximum(jnp.abs(self.low) * small.eps, small.tiny)
        most = self.high - jnp.maximum(jnp.abs(self.high) * small.eps, small.tiny)
        return _within(x.astype(dtype), least, most)

    def inverse(self, x):
        return jnp.log(x - self.low) - jnp.log(self.high - x)

    def log_det(self, u):
        each = jnp.log(self.high - self.low) + jax.nn.log_sigmoid(u) + jax.nn.log_sigmoid(-u)
        return jnp.sum(each).astype(jnp.result_type(u))


@record
class Simplex:
    """k positive weights of sum 1 from k − 1 free numbers, along the last axis."""

    def forward(self, u):
        stick, rest = self._sticks(u)
        zero = jnp.zeros((*u.shape[:-1], 1), u.dtype)
        left = jnp.concatenate([zero, jnp.cumsum(rest, axis=-1)], axis=-1)  # log of what is left of the stick
        return _exp(jnp.concatenate([stick, zero], axis=-1) + left)

    def inverse(self, x):
        after = jnp.flip(jnp.cumsum(jnp.flip(x, -1), axis=-1), -1)[..., 1:]
        return jnp.log(x[..., :-1]) - jnp.log(after) + self._shift(x[..., :-1])

    def log_det(self, u):
        stick, rest = self._sticks(u)
        # each stick i is broken from what the i − 1 before it left
        k = u.shape[-1]
        times_left = jnp.broadcast_to(jnp.arange(k, 0, -1, dtype=u.dtype), u.shape)
        return jnp.sum(stick + times_left * rest)

    def _sticks(self, u):
        """log z and log(1 − z)."""
        v = u - self._shift(u)
        return jax.nn.log_sigmoid(v), jax.nn.log_sigmoid(-v)

    def _shift(self, u):
        k = u.shape[-1]
        return jnp.broadcast_to(jnp.log(jnp.arange(k, 0, -1, dtype=u.dtype)), u.shape)


@record
class Ordered:
    """Increasing numbers along the last axis: x_1 = u_1, x_i = x_{i−1} + e^{u_i}."""

    def forward(self, u):
        return jnp.cumsum(jnp.concatenate([u[..., :1], _exp(u[..., 1:])], axis=-1), axis=-1)

    def inverse(self, x):
        return jnp.concatenate([x[..., :1], jnp.log(jnp.diff(x, axis=-1))], axis=-1)

    def log_det(self, u):
        return jnp.sum(u[..., 1:])


@record
class Transformed(Derived):
    """A target with constrained parameters, on free ones.

    target: the target of x.
    bijections: a tree prefix of the position whose leaves are bijections; keys left out of a dict are Real.
    """

    target: Any
    bijections: PyTree

    def prior(self, position: PyTree) -> Scalar:
        """The log prior of the free parameters, volume included, where the target has one."""
        return self.target.prior(self.constrain(position)) + self.log_det(position)

    def constrain(self, position: PyTree) -> PyTree:
        """x of u."""
        return each(_forward, self.bijections, position)

    def unconstrain(self, position: PyTree) -> PyTree:
        """u of x."""
        return each(_inverse, self.bijections, position)

    def log_det(self, position: PyTree) -> Scalar:
        """log |det ∂f/∂u|."""
        return sum(jax.tree.leaves(each(_log_det, self.bijections, position)), jnp.zeros(()))

    def log_density(self, position: PyTree) -> Scalar:
        return self.target.log_density(self.constrain(position)) + self.log_det(position)

    def evaluate(self, batch: Batch, position: PyTree) -> Eval:
        x, pull = jax.vjp(self.constrain, position)
        here = self.target.evaluate(batch, x)
        volume, grad = jax.value_and_grad(self.log_det)(position)
        return Eval(here.log_density + volume, tree.add(pull(here.grad)[0], grad), here.n_data)


def each(fn: Callable, bijections: PyTree, position: PyTree) -> PyTree:
    """fn(bijection, leaf) on every leaf of the position, each under the bijection that stands above it."""
    if is_record(bijections) and isinstance(bijections, Bijection):
        return jax.tree.map(partial(fn, bijections), position)
    if isinstance(bijections, dict) and isinstance(position, dict):
        unknown = sorted(map(str, bijections.keys() - position.keys()))
        if unknown:
            names = ", ".join(sorted(map(str, position)))
            raise ValueError(f"Transformed: there is no {unknown[0]!r} in the position, which has {names}.")
        return {name: each(fn, bijections.get(name, Real()), leaf) for name, leaf in position.items()}
    if jax.tree_util.all_leaves([bijections]):
        raise TypeError(f"Transformed: {bijections!r} is not a bijection; give a record such as Positive().")
    stop = lambda node: node is not bijections and isinstance(node, (dict, Bijection))
    return jax.tree.map(partial(each, fn), bijections, position, is_leaf=stop)


def _forward(bijection, u):
    return bijection.forward(u)


def _inverse(bijection, x):
    return bijection.inverse(x)


def _log_det(bijection, u):
    return bijection.log_det(u)


def _within(x, low, high):
    """x kept inside its domain, with the derivative of x."""
    inside = jax.lax.stop_gradient(jnp.clip(x, low, high)).astype(x.dtype)
    return inside + (x - jax.lax.stop_gradient(x))  # the bracket is 0: only its derivative counts


def _exp(u):
    return jnp.exp(_within(u, LOW, HIGH))
