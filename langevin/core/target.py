"""The Target protocol: what is sampled. Estimates of a log density and its gradient, exact or from mini-batches.

Which data a gradient sees is the target's business; when to evaluate, and whether twice on the same batch, is the
kernel's. Every target has the three members of `Target`. What only some targets can do is a further protocol, and
whether a target can do it is asked in one place, `provides`: a target made from targets can do what those can.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from langevin.core.record import record, static
from langevin.core.types import Batch, Eval, Feed, Key, PyTree, Scalar


@runtime_checkable
class Target(Protocol):
    """What is sampled. `stochastic` says whether `estimate` is noisy; `start` opens the stream of data."""

    @property
    def stochastic(self) -> bool: ...
    def start(self, key: Key) -> Feed: ...
    def estimate(self, key: Key, feed: Feed, position: PyTree) -> tuple[Eval, Feed]: ...


@runtime_checkable
class HasDensity(Target, Protocol):
    """The log density itself, over all data."""

    def log_density(self, position: PyTree) -> Scalar: ...


@runtime_checkable
class HasBatches(Target, Protocol):
    """Mini-batches that can be evaluated more than once, and split.

    `fraction` is a Python number, for it sets a shape; below 1 the draw is with replacement, independent of the feed,
    and leaves the feed as it was.
    """

    def draw(self, key: Key, feed: Feed, *, fraction: float = 1.0) -> tuple[Batch, Feed]: ...
    def evaluate(self, batch: Batch, position: PyTree) -> Eval: ...
    def parts(self, batch: Batch, n: int) -> tuple[Batch, ...]: ...


@runtime_checkable
class HasPrior(Target, Protocol):
    """A log prior of its own: for tempering the likelihood alone, and for paths from the prior."""

    def prior(self, position: PyTree) -> Scalar: ...


@runtime_checkable
class HasLikelihood(HasPrior, Protocol):
    """A prior, a log likelihood of every example, and the data: for control variates and cross-validation."""

    @property
    def data(self) -> PyTree: ...
    @property
    def n(self) -> int: ...
    def likelihood(self, position: PyTree, data: PyTree) -> jax.Array: ...


@runtime_checkable
class HasLogPrior(Protocol):
    """A target whose prior is a record of its own, such as Bayes."""

    @property
    def log_prior(self) -> Any: ...


@runtime_checkable
class HasPrecision(Protocol):
    """A log prior that says 1/variance of the normal it is like around a position, in its shape; positive."""

    def precision(self, position: PyTree) -> PyTree: ...


@runtime_checkable
class HasFactors(HasPrior, Protocol):
    """Values and gradients of the factors of some examples, and a bound of how far gradients are from an anchor's."""

    @property
    def n(self) -> int: ...
    def factors(self, index: jax.Array, position: PyTree) -> Any: ...
    def bound(self, anchor: Any) -> jax.Array: ...


@runtime_checkable
class HasStructure(Target, Protocol):
    """Knows what its positions look like: `structure` is a tree of `jax.ShapeDtypeStruct` of one chain."""

    @property
    def structure(self) -> PyTree: ...


@runtime_checkable
class HasNote(Target, Protocol):
    """Records more than its value while it is climbed: `note` reads it from a state."""

    note: Callable[[Any], PyTree]


@runtime_checkable
class Composite(Protocol):
    """Made from targets, which are `made_of`."""

    @property
    def made_of(self) -> tuple[Any, ...]: ...


@runtime_checkable
class Separable(Protocol):
    """Says whether its coordinates are independent."""

    @property
    def independent(self) -> bool: ...


NEEDED: dict[Any, str] = {
    Target: "stochastic, start and estimate",
    HasDensity: "an exact log_density",
    HasBatches: "mini-batches (draw, evaluate and parts)",
    HasPrior: "a method `prior`",
    HasLikelihood: "prior, likelihood, data and n",
    HasFactors: "prior, n, factors and bound",
}


def provides(target: Any, capability: type) -> bool:
    """Whether the target, and every target it is made from, has the members of a protocol."""
    if not isinstance(target, capability):
        return False
    return all(provides(part, capability) for part in target.made_of) if isinstance(target, Composite) else True


def need(target: Any, capability: type, who: str) -> None:
    """Refuse, in one sentence, a target that cannot do what `who` needs."""
    if not provides(target, capability):
        has = "such as Bayes or Density" if capability in (Target, HasDensity) else "such as Bayes"
        raise TypeError(f"{who} needs a target with {NEEDED[capability]}, {has}; {type(target).__name__} has none.")


def examples(target: Any) -> int:
    """How many examples an evaluation of the exact density sees; 1 for a target without data."""
    if isinstance(target, HasLikelihood) and not isinstance(target, Composite):
        return target.n
    return max(map(examples, target.made_of), default=1) if isinstance(target, Composite) else 1


def independent(target: Any) -> bool:
    """Whether the coordinates of a position are known to be independent."""
    return isinstance(target, Separable) and bool(target.independent)


def evaluator(key: Key, target: Any, feed: Feed) -> tuple[Callable[[PyTree], Eval], Feed]:
    """The target as a function of position within one step, for kernels that evaluate more than once on one batch."""
    if provides(target, HasBatches):
        batch, feed = target.draw(key, feed)
        return lambda position: target.evaluate(batch, position), feed
    if target.stochastic:
        need(target, HasBatches, "a kernel that evaluates one mini-batch more than once")
    return lambda position: value_and_grad(target, position), feed


def value_and_grad(target: Any, position: PyTree) -> Eval:
    """The exact density and its gradient."""
    value, grad = jax.value_and_grad(target.log_density)(position)
    return Eval(value, grad, jnp.asarray(examples(target), jnp.int32))


class Batched:
    """Abstract: estimates by drawing a mini-batch and evaluating on it. A subclass gives `draw` and `evaluate`."""

    def draw(self, key: Key, feed: Feed, *, fraction: float = 1.0) -> tuple[Batch, Feed]:
        raise NotImplementedError

    def evaluate(self, batch: Batch, position: PyTree) -> Eval:
        raise NotImplementedError

    def estimate(self, key: Key, feed: Feed, position: PyTree) -> tuple[Eval, Feed]:
        batch, feed = self.draw(key, feed)
        return self.evaluate(batch, position), feed


class Exact(Batched):
    """Abstract: a target without data to subsample. A subclass gives `log_density`."""

    stochastic = False

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


class Derived(Batched):
    """Abstract: a target made from another, in its field `target`. What a subclass does not change is passed on."""

    target: Any

    @property
    def made_of(self) -> tuple[Any, ...]:
        return (self.target,)

    @property
    def stochastic(self) -> bool:
        return self.target.stochastic

    def start(self, key: Key) -> Feed:
        return self.target.start(key)

    def draw(self, key: Key, feed: Feed, *, fraction: float = 1.0) -> tuple[Batch, Feed]:
        return self.target.draw(key, feed, fraction=fraction)

    def parts(self, batch: Batch, n: int) -> tuple[Batch, ...]:
        return self.target.parts(batch, n)


@record
class Density(Exact):
    """Any function as an exact target: log_density = fn(position, *args).

    fn: log density, a module-level function.
    args: arrays it also needs; they travel as data, so new ones do not recompile.
    """

    fn: Callable = static()
    args: tuple = ()

    def log_density(self, position):
        value = self.fn(position, *self.args)
        if jnp.shape(value) != ():
            raise ValueError(
                f"Density: fn returned shape {jnp.shape(value)}; it must return one number for one position."
            )
        return value
