r"""Gates that are nearly 0 or 1: a relaxed spike and slab over groups of weights.

    w_gj = s (r + (1 − r) b_g) z_gj,   b_g = sigmoid((logit π + logit Φ(u_g)) / T),   u, z ~ N(0, 1).

logit Φ(u) is logistic, so as T → 0 a gate is a Bernoulli(π) variable, and group g has the scale s of the slab or r s of
the spike. For T > 0 it has a gradient, and the position is N(0, I). Groups are those of the horseshoe.

References
----------
Maddison, Mnih & Teh (2017), The concrete distribution, §3.1 (binary concrete).
Louizos, Welling & Kingma (2018), Learning sparse neural networks through L0 regularization, eqs. (10)-(12).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from langevin.core.record import positive, record, static
from langevin.nets.priors.half_cauchy import logit_uniform
from langevin.nets.priors.horseshoe import check_group
from langevin.nets.priors.layout import Group
from langevin.nets.priors.prior import NonCentered
from langevin.nets.priors.spike_and_slab import check_share


@record
class GatedPrior(NonCentered):
    """Normal weights whose groups are switched on and off by relaxed Bernoulli gates.

    scale: s, of the slab: a number, "fan_in" or a dict of path patterns.
    spike: r, of the spike's standard deviation to the slab's; below 1.
    share: π, of groups that are on; below 1.
    relaxation: T; the smaller, the harder gates are and the harder to sample.
    group: "input", "unit" or "weight".
    layout: what is known of the net; `bnn` fills it in.
    """

    scale: Any = 1.0
    spike: float = positive(default=0.05)
    share: float = positive(default=0.5)
    relaxation: float = positive(default=0.5)
    group: Group = static(default="input")
    layout: Any = static(default=None)

    def __post_init__(self):
        check_group(self)
        check_share(self)

    def extra(self):
        return {name: jnp.zeros(shape) for name, shape in self.known().groups(self.group).items()}

    def scales(self, extra):
        odds = jnp.log(self.share) - jnp.log1p(-self.share)
        gate = lambda u: jax.nn.sigmoid((odds + logit_uniform(u)) / self.relaxation)
        return {name: self.spike + (1 - self.spike) * gate(u) for name, u in extra.items()}

    def begin(self, size):
        return self.extra()
