"""The Target protocol: what is sampled, and mini-batch estimates of it.

Which data a gradient sees is the target's business; when to look, and whether twice at the same batch, is the
kernel's. `Exact` gives a closed-form density the mini-batch half of the protocol for free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from langevin.core.record import record, static
from langevin.core.types import Batch, Eval, Feed, Key, PyTree, Scalar


@runtime_checkable
class Target(Protocol):
    """What is sampled. `fraction` is a Python number, for it sets a shape; below 1 the draw is with replacement,
    independent of the feed, and leaves the feed as it was."""

    def log_density(self, position: PyTree) -> Scalar: ...
    def start(self, key: Key) -> Feed: ...
    def draw(self, key: Key, feed: Feed, *, fraction: float = 1.0) -> tuple[Batch, Feed]: ...
    def evaluate(self, batch: Batch, position: PyTree) -> Eval: ...
    def parts(self, batch: Batch, n: int) -> tuple[Batch, ...]: ...


class Exact:
    """A target without data to subsample: a subclass gives `log_density`."""

    def log_density(self, position: PyTree) -> Scalar:
        raise NotImplementedError

    def start(self, key: Key) -> Feed:
        return ()

    def draw(self, key: Key, feed: Feed, *, fraction: float = 1.0) -> tuple[Batch, Feed]:
        return (), feed

    def evaluate(self, batch: Batch, position: PyTree) -> Eval:
        value, grad = jax.value_and_grad(self.log_density)(position)
        return Eval(value, grad, jnp.ones((), jnp.int32))

    def parts(self, batch: Batch, n: int) -> tuple[Batch, ...]:
        return (batch,) * n


@record
class Density(Exact):
    """Any function as an exact target: log_density = fn(position, *args).

    fn: log density, a module-level function.
    args: arrays it also needs; they travel as data, so new ones do not recompile.
    """

    fn: Callable = static()
    args: tuple = ()

    def log_density(self, position):
        return self.fn(position, *self.args)


def minibatched(target: Any) -> bool:
    """Whether evaluations are estimates: `batch` (or `stochastic`) is set on the target or on one it is made of."""
    if getattr(target, "stochastic", getattr(target, "batch", None) is not None):
        return True
    parts = [getattr(target, f.name) for f in fields(target)] if is_dataclass(target) else []
    return any(minibatched(part) for part in parts if hasattr(part, "evaluate"))


def look(key: Key, target: Target, feed: Feed, position: PyTree) -> tuple[Eval, Feed]:
    """Draw the next mini-batch and evaluate on it; a target whose stream learns from the position does so by `look`."""
    if hasattr(target, "look"):
        return target.look(key, feed, position)
    batch, feed = target.draw(key, feed)
    return target.evaluate(batch, position), feed
