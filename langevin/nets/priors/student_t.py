r"""Independent Student-t weights: heavier tails than normals, so that single weights may be large.

    p(w) = Γ((ν+1)/2) / (Γ(ν/2) √(νπ) s) · (1 + w²/(ν s²))^−(ν+1)/2.

It is N(0, λ²s²) with ν/λ² ~ χ²_ν, and (ν+1)/(νs² + w²) = E[1/(λs)² | w] takes the place of 1/variance in metrics.

References
----------
Fortuin et al. (2022), Bayesian neural network priors revisited, §3.
Andrews & Mallows (1974), Scale mixtures of normal distributions.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln

from langevin.core.record import positive, record, static
from langevin.nets.priors.prior import PerWeight


@record
class StudentTPrior(PerWeight):
    """Independent Student-t weights around zero.

    scale: s: a number, "fan_in" or a dict of path patterns.
    df: ν, degrees of freedom.
    layout: what is known of the net; `bnn` fills it in.
    """

    scale: Any = "fan_in"
    df: float = positive(default=4.0)
    layout: Any = static(default=None)

    def log_prob(self, w, s):
        v = self.df
        constant = gammaln((v + 1) / 2) - gammaln(v / 2) - 0.5 * jnp.log(v * math.pi) - jnp.log(s)
        return constant - 0.5 * (v + 1) * jnp.log1p((w / s) ** 2 / v)

    def sample_weight(self, key, shape, s):
        return s * jax.random.t(key, self.df, shape)

    def curvature(self, w, s):
        return (self.df + 1) / (self.df * s**2 + w**2)
