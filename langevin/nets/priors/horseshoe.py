r"""The horseshoe: most groups of weights shrink to nothing, a few are left as they are.

    w_gj = s τ λ_g z_gj,      λ_g ~ C⁺(0, 1) for every group g,   τ ~ C⁺(0, τ₀) for every layer,   z ~ N(0, 1).

A group is the weights that leave an input of a layer ("input": whole inputs and hidden units are left out), those that
enter a unit ("unit") or a single weight ("weight"). All scales are functions of normals, λ = tan(π Φ(u)/2), so the
position is N(0, I). Arrays of one axis, biases, are N(0, s²).

References
----------
Carvalho, Polson & Scott (2010), The horseshoe estimator for sparse signals, eq. (1).
Ghosh, Yao & Doshi-Velez (2018), Structured variational learning of Bayesian neural networks with horseshoe priors,
    eqs. (2)-(4) (groups by unit; §3.1, non-centered).
Louizos, Ullrich & Welling (2017), Bayesian compression for deep learning, §4.2 (groups by input).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from langevin.core.record import positive, record, static
from langevin.nets.priors.half_cauchy import log_half_cauchy, of_half_cauchy
from langevin.nets.priors.layout import GROUPS, Group
from langevin.nets.priors.prior import NonCentered


@record
class HorseshoePrior(NonCentered):
    """Weights with half-Cauchy scales, one for every group and one for every layer.

    scale: s: a number, "fan_in" or a dict of path patterns.
    shrinkage: τ₀, the median of a layer's scale; the smaller, the fewer groups are left.
    group: "input", "unit" or "weight".
    layout: what is known of the net; `bnn` fills it in.
    """

    scale: Any = 1.0
    shrinkage: float = positive(default=0.1)
    group: Group = static(default="input")
    layout: Any = static(default=None)

    def __post_init__(self):
        check_group(self)

    def extra(self):
        groups = self.known().groups(self.group)
        return {
            "global": {name: jnp.zeros(()) for name in groups},
            "local": {name: jnp.zeros(shape) for name, shape in groups.items()},
        }

    def scales(self, extra):
        return {name: jnp.exp(value) for name, value in log_scales(self, extra).items()}

    def begin(self, size):
        extra = self.extra()
        return extra | {"global": {name: of_half_cauchy(size[name] / self.shrinkage) for name in extra["global"]}}


def log_scales(prior: Any, extra: dict[str, Any]) -> dict[str, Any]:
    """log τλ of every group."""
    log_tau = {name: jnp.log(prior.shrinkage) + log_half_cauchy(u) for name, u in extra["global"].items()}
    return {name: log_tau[name] + log_half_cauchy(u) for name, u in extra["local"].items()}


def check_group(prior: Any) -> None:
    """Refuse groups that there are not."""
    if prior.group not in GROUPS:
        raise ValueError(f"{type(prior).__name__}: group is {prior.group!r}; it must be one of {', '.join(GROUPS)}.")
