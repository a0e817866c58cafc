r"""Paths of targets from an easy one (β = 0) to the wanted one (β = 1), for annealing and thermodynamic integration.

    Geometric(base, target).at(β)  ∝  base^{1−β} · target^β
    Annealed(target).at(β)         ∝  prior · likelihood^β

Both are finite at β = 0, where no power of the far end is taken, and both are linear in the estimates of the two
ends, so mini-batches stay unbiased. β is a number: a new one never recompiles.

References
----------
Neal (2001), Annealed importance sampling, eq. (3).
Gelman & Meng (1998), Simulating normalizing constants: from importance sampling to bridge sampling to path
  sampling.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import jax

from langevin.core.record import record
from langevin.core.target import Batched, Derived, HasPrior, Target, need
from langevin.core.types import Batch, Eval, Feed, Key, PyTree, Scalar
from langevin.targets.tempered import blend, likelihood_to


@runtime_checkable
class Path(Protocol):
    """A target for every β in [0, 1]; all of them share feeds, batches and positions."""

    def at(self, beta) -> Target: ...


@record
class Geometric:
    """The geometric path base^{1−β} target^β.

    base: the target at β = 0, easy to draw from.
    target: the target at β = 1.
    """

    base: Any
    target: Any

    def at(self, beta) -> Between:
        return Between(self.base, self.target, beta)


@record
class Annealed:
    """The path from prior to posterior, prior · likelihood^β.

    target: a target with `prior`, such as Bayes.
    """

    target: Any

    def __post_init__(self):
        need(self.target, HasPrior, "Annealed")

    def at(self, beta) -> Powered:
        return Powered(self.target, beta)


@record
class Between(Batched):
    """base^{1−β} target^β; its feed and batches are pairs, and n_data counts both ends.

    base: the target at β = 0.
    target: the target at β = 1.
    beta: β.
    """

    base: Any
    target: Any
    beta: Any = 1.0

    @property
    def made_of(self) -> tuple[Any, ...]:
        return self.base, self.target

    @property
    def stochastic(self) -> bool:
        return self.base.stochastic or self.target.stochastic

    def log_density(self, position: PyTree) -> Scalar:
        return blend(self.beta, self.target.log_density(position), self.base.log_density(position))

    def start(self, key: Key) -> Feed:
        k_base, k_target = jax.random.split(key)
        return self.base.start(k_base), self.target.start(k_target)

    def draw(self, key: Key, feed: Feed, *, fraction: float = 1.0) -> tuple[Batch, Feed]:
        k_base, k_target = jax.random.split(key)
        one, first = self.base.draw(k_base, feed[0], fraction=fraction)
        two, second = self.target.draw(k_target, feed[1], fraction=fraction)
        return (one, two), (first, second)

    def evaluate(self, batch: Batch, position: PyTree) -> Eval:
        base, target = self.base.evaluate(batch[0], position), self.target.evaluate(batch[1], position)
        return Eval(
            blend(self.beta, target.log_density, base.log_density),
            jax.tree.map(lambda t, b: blend(self.beta, t, b), target.grad, base.grad),
            base.n_data + target.n_data,
        )

    def parts(self, batch: Batch, n: int) -> tuple[Batch, ...]:
        return tuple(zip(self.base.parts(batch[0], n), self.target.parts(batch[1], n), strict=True))


@record
class Powered(Derived):
    """prior · likelihood^β.

    target: the target at β = 1; it has `prior`.
    beta: β.
    """

    target: Any
    beta: Any = 1.0

    def prior(self, position: PyTree) -> Scalar:
        return self.target.prior(position)

    def log_density(self, position: PyTree) -> Scalar:
        return blend(self.beta, self.target.log_density(position), self.target.prior(position))

    def evaluate(self, batch: Batch, position: PyTree) -> Eval:
        return likelihood_to(self.beta, self.target, self.target.evaluate(batch, position), position)
