r"""The horseshoe with a slab: groups that are not shrunk are N(0, c²) rather than free.

    w_gj = s τ λ̃_g z_gj,   λ̃² = c² λ² / (c² + τ² λ²),   c² ~ InvGamma(ν/2, ν s_c²/2) for every layer,

λ and τ as in the horseshoe. Where τλ ≪ c it is the horseshoe, where τλ ≫ c the scale is c: weights that the data do not
bound have finite moments, and samplers meet no funnel without end. c² = ν s_c²/2 / Gamma(ν/2), the gamma variable a sum
of ν/2 exponentials −log Φ(u), so ν is even and the position is N(0, I).

References
----------
Piironen & Vehtari (2017), Sparsity information and regularization in the horseshoe and other shrinkage priors,
    eqs. (2.8)-(2.9); §3.3: τ₀ = m/(D − m) · σ/√n for about m groups of D that matter.
Ghosh, Yao & Doshi-Velez (2018), Structured variational learning of Bayesian neural networks with horseshoe priors.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from langevin.core.record import positive, record, static
from langevin.nets.priors.half_cauchy import log_gamma_of, of_half_cauchy
from langevin.nets.priors.horseshoe import check_group, log_scales
from langevin.nets.priors.layout import Group
from langevin.nets.priors.prior import NonCentered


@record
class RegularizedHorseshoePrior(NonCentered):
    """The horseshoe whose largest weights are normal.

    scale: s: a number, "fan_in" or a dict of path patterns.
    shrinkage: τ₀, the median of a layer's scale; the smaller, the fewer groups are left.
    slab: s_c, about the standard deviation of weights that are left, relative to s.
    df: ν, degrees of freedom of the slab; an even number.
    group: "input", "unit" or "weight".
    layout: what is known of the net; `bnn` fills it in.
    """

    scale: Any = 1.0
    shrinkage: float = positive(default=0.1)
    slab: float = positive(default=2.0)
    df: int = static(default=4)
    group: Group = static(default="input")
    layout: Any = static(default=None)

    def __post_init__(self):
        check_group(self)
        if self.df < 2 or self.df % 2:
            raise ValueError(f"RegularizedHorseshoePrior: df is {self.df}; it must be an even number from 2 up.")

    def extra(self):
        groups = self.known().groups(self.group)
        return {
            "global": {name: jnp.zeros(()) for name in groups},
            "local": {name: jnp.zeros(shape) for name, shape in groups.items()},
            "slab": {name: jnp.zeros(self.df // 2) for name in groups},
        }

    def scales(self, extra):
        found = {}
        for name, log_r in log_scales(self, extra).items():
            log_c = jnp.log(self.slab) + 0.5 * (jnp.log(self.df / 2) - log_gamma_of(extra["slab"][name]))
            found[name] = jnp.exp(log_r - 0.5 * jax.nn.softplus(2 * (log_r - log_c)))
        return found

    def begin(self, size):
        extra = self.extra()
        return extra | {"global": {name: of_half_cauchy(size[name] / self.shrinkage) for name in extra["global"]}}
