r"""Implicit distributions: weights made by a hypernetwork, without a density.

    ω ~ N(0, I),  θ = μ + s f_φ(ω),      f_φ a network with one hidden layer.

Draws lie on a curved sheet of as many dimensions as ω has. They are fitted by an objective that needs draws alone,
`SteinELBO`. `SemiImplicit` is the same with noise added, and has a bound.

References
----------
Li & Turner (2018), Gradient estimators for implicit models.
Chen, Li, Zhang & Li, Bayesian Computation in Deep Learning, §2.2.2.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from langevin.core import noise, tree
from langevin.core.record import positive, record, static
from langevin.core.types import PyTree
from langevin.vi.families.semi_implicit import Hidden, hidden, said


class Made(NamedTuple):
    """φ."""

    mean: PyTree
    net: Hidden


@record
class Implicit:
    """Positions made by a hypernetwork.

    inputs: numbers in ω.
    width: hidden units of f.
    scale: s.
    """

    inputs: int = static(default=10)
    width: int = static(default=50)
    scale: float = positive(default=0.1)

    def init(self, key, position):
        return Made(position, hidden(key, self.inputs, self.width, tree.size(position)))

    def sample(self, key, params):
        unit = said(params.net, noise.like(key, jnp.zeros(self.inputs)))
        return tree.axpy(self.scale, ravel_pytree(params.mean)[1](unit), params.mean)
