r"""The Family protocol: distributions q_φ over positions that can be fitted. What only some can do is a protocol too.

A family is a record: its fields are settings, and φ, a tree of arrays, is apart from it, so that many fits stand side
by side. Draws are differentiable in φ: θ = T_φ(ε), the reparameterisation (eq. 2.17). `init(key, position)` gives φ of
a distribution around a position.

    HasLogProb      log q_φ(θ)
    HasEntropy      −E log q_φ in closed form, up to a constant that does not depend on φ
    HasMoments      mean and variance of every coordinate
    HasSigns        deviations from the mean that may change sign one by one
    HasJoint        a draw and its log q together, where log q alone cannot be had (semi-implicit families)
    HasPenalty      a divergence from the prior of its own, for families without a density over positions
    HasStrata       a mixture: draws of each component, with the weights of the components

References
----------
Chen, Li, Zhang & Li, Bayesian Computation in Deep Learning, eqs. (2.13)-(2.17).
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from langevin.core.record import record
from langevin.core.target import Exact
from langevin.core.types import Key, PyTree, Scalar


@runtime_checkable
class Family(Protocol):
    """A distribution over positions with parameters φ, that can be drawn from."""

    def init(self, key: Key, position: PyTree) -> PyTree: ...
    def sample(self, key: Key, params: PyTree) -> PyTree: ...


@runtime_checkable
class HasLogProb(Family, Protocol):
    """A normalised density."""

    def log_prob(self, params: PyTree, position: PyTree) -> Scalar: ...


@runtime_checkable
class HasEntropy(Family, Protocol):
    """An entropy in closed form."""

    def entropy(self, params: PyTree) -> Scalar: ...


@runtime_checkable
class HasMoments(Family, Protocol):
    """Mean and variance of every coordinate, trees like the position."""

    def mean(self, params: PyTree) -> PyTree: ...
    def variance(self, params: PyTree) -> PyTree: ...


@runtime_checkable
class HasSigns(HasMoments, Protocol):
    """Deviations from the mean may change sign one by one, and the distribution is the same."""

    signs: bool


@runtime_checkable
class HasJoint(Family, Protocol):
    """A draw, and an estimate of its log density whose mean makes the ELBO a lower bound."""

    def joint(self, key: Key, params: PyTree) -> tuple[PyTree, Scalar]: ...


@runtime_checkable
class HasPenalty(Family, Protocol):
    """What stands for KL(q ‖ prior) in the ELBO; `prior` is the target's record of it."""

    def penalty(self, params: PyTree, prior: Any) -> Scalar: ...


@runtime_checkable
class HasStrata(HasLogProb, Protocol):
    """A mixture of `components` distributions; `share` are the logarithms of their weights."""

    @property
    def components(self) -> int: ...
    def share(self, params: PyTree) -> jax.Array: ...
    def sample_from(self, key: Key, params: PyTree, component: jax.Array) -> PyTree: ...


@runtime_checkable
class ClosedForm(Protocol):
    """A log prior whose mean under any distribution follows from its moments."""

    def expected(self, mean: PyTree, variance: PyTree) -> Scalar: ...


def check_family(family: Any, capability: type, who: str) -> None:
    """Refuse, in one sentence, a family that cannot do what `who` needs."""
    if isinstance(family, capability):
        return
    name = family.__name__ if isinstance(family, type) else type(family).__name__
    if capability is Family or isinstance(family, type):
        raise TypeError(f"{who}: the family is {name}; it must be an instance with init and sample, as MeanField().")
    what: dict[Any, str] = {
        HasLogProb: "a density",
        HasJoint: "a density",
        HasMoments: "moments",
        HasEntropy: "an entropy",
    }
    raise TypeError(f"{who} needs a family with {what[capability]}, such as MeanField; {name} has none.")


@record
class Approximation(Exact):
    """A fitted distribution: a target of known log Z = 0, and a base to anneal or to weigh from.

    family: the family.
    params: φ.
    """

    family: Any
    params: PyTree

    def log_density(self, position):
        check_family(self.family, HasLogProb, "Approximation.log_density")
        return self.family.log_prob(self.params, position)

    def exact(self, key: Key, n: int) -> PyTree:
        """n independent draws."""
        return jax.vmap(self.family.sample, (0, None))(jax.random.split(key, n), self.params)


def total(parts: PyTree) -> Scalar:
    """The sum of the leaves, each a number."""
    return sum(jax.tree.leaves(parts), jnp.zeros(()))
