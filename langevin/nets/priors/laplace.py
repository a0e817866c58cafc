r"""Independent Laplace weights: many near zero, some large; its mode is the lasso's.

    p(w) = exp(−|w|/b) / 2b,      variance 2b².

References
----------
Williams (1995), Bayesian regularization and pruning using a Laplace prior.
Fortuin et al. (2022), Bayesian neural network priors revisited, §3 (weights of trained nets have heavy tails).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from langevin.core.record import record, static
from langevin.nets.priors.prior import PerWeight


@record
class LaplacePrior(PerWeight):
    """Independent Laplace weights around zero.

    scale: b: a number, "fan_in" or a dict of path patterns; the standard deviation is √2 b.
    layout: what is known of the net; `bnn` fills it in.
    """

    scale: Any = "fan_in"
    layout: Any = static(default=None)

    def log_prob(self, w, s):
        return -jnp.abs(w) / s - jnp.log(2 * s)

    def sample_weight(self, key, shape, s):
        return s * jax.random.laplace(key, shape)

    def curvature(self, w, s):
        return jnp.full_like(w, 0.5 / s**2)
