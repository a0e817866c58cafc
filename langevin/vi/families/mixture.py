r"""Mixtures of a family: several places for one approximation.

    q(θ) = Σ_c π_c q_c(θ),      ELBO = Σ_c π_c E_{q_c}[log p̃(θ) − log q(θ)].

The same number of draws is made of every component and weighed by π_c, so that the weights π get a gradient without
noise of their own; objectives of importance weights work the same way.

References
----------
Morningstar, Vikram, Ham, Gallagher & Dillon (2021), Automatic differentiation variational inference with mixtures.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from langevin.core import noise, tree
from langevin.core.record import positive, record, static
from langevin.core.types import PyTree
from langevin.vi.families.mean_field import MeanField
from langevin.vi.family import HasLogProb, check_family


class Components(NamedTuple):
    """φ: logits of π, and φ of every component, stacked."""

    logits: jax.Array
    each: PyTree


@record
class Mixture:
    """A mixture of one family.

    family: of every component; it needs a density.
    components: how many.
    apart: standard deviation of their starts around the position.
    """

    family: Any = MeanField()
    components: int = static(default=3)
    apart: float = positive(default=0.1)

    def __post_init__(self):
        check_family(self.family, HasLogProb, "Mixture")
        if self.components < 1:
            raise ValueError(f"Mixture: components is {self.components}; it must be 1 or more.")

    def init(self, key, position):
        def one(key):
            k_place, k_init = jax.random.split(key)
            near = tree.add(position, tree.scale(self.apart, noise.like(k_place, position)))
            return self.family.init(k_init, near)

        return Components(jnp.zeros(self.components), jax.vmap(one)(jax.random.split(key, self.components)))

    def share(self, params):
        return jax.nn.log_softmax(params.logits)

    def sample_from(self, key, params, component):
        return self.family.sample(key, jax.tree.map(lambda u: u[component], params.each))

    def sample(self, key, params):
        k_which, k_draw = jax.random.split(key)
        return self.sample_from(k_draw, params, jax.random.categorical(k_which, params.logits))

    def log_prob(self, params, position):
        values = jax.vmap(lambda one: self.family.log_prob(one, position))(params.each)
        return jax.nn.logsumexp(self.share(params) + values)
