r"""Independent normals, one standard deviation for every array: weight decay, as a prior.

    p(θ) = Π_leaf N(θ_leaf; 0, s²_leaf),      E_q log p = −½ Σ (μ² + σ²)/s² − log s − ½ log 2π,

the second for every q of means μ and variances σ². With "fan_in" (weights 1/√fan_in) the variance of a layer's outputs
does not depend on its width.

References
----------
Neal (1996), Bayesian learning for neural networks, §2.1.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from langevin.core import noise
from langevin.core.record import record, replace, static
from langevin.core.types import PyTree
from langevin.nets.priors.layout import Layout, prior_scales
from langevin.nets.priors.prior import HALF_LOG_2PI, Prior, span


@record
class NormalPrior(Prior):
    """Independent normals around zero.

    scale: a number, "fan_in" or a dict of path patterns; of a prior that knows its net, a tree like the position, one
        standard deviation per leaf.
    layout: what is known of the net; `bnn` fills it in.
    """

    scale: PyTree = 1.0
    layout: Any = static(default=None)

    def on(self, net, learned=()):
        return replace(
            self,
            scale={"net": prior_scales(net, self.scale)} | {name: jnp.ones(()) for name in learned},
            layout=Layout.of(net, learned),
        )

    def __call__(self, position):
        def one(u, s):
            return -0.5 * jnp.sum((u / s) ** 2) - u.size * (jnp.log(s) + HALF_LOG_2PI)

        return sum(jax.tree.leaves(jax.tree.map(one, position, self.scale)), jnp.zeros(()))

    def expected(self, mean, variance):
        """E log p under a distribution with these moments."""
        parts = jax.tree.map(lambda v, s: jnp.sum(v) / s**2, variance, self.scale)
        return self(mean) - 0.5 * sum(jax.tree.leaves(parts), jnp.zeros(()))

    def precision(self, position):
        """1/variance, in the shape of a position."""
        return jax.tree.map(lambda u, s: jnp.full_like(u, s**-2), position, self.scale)

    def sample(self, key):
        return jax.tree.map(lambda z, s: s * z, noise.like(key, self.zeros()), self.scale)

    def zeros(self):
        known = self.known()
        net = jax.tree.unflatten(jax.tree.structure(self.scale["net"]), [jnp.zeros(shape) for shape in known.shapes])
        return {"net": net} | {name: jnp.zeros(()) for name in known.learned}

    @property
    def normal_scale(self):
        return self.scale

    def words(self):
        return f"normal, standard deviation {span(self.scale['net'])}" if self.layout else f"normal, {self.scale}"
