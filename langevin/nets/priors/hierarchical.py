r"""Normals whose scale is learned, one for every array of the net.

    w = s σ z,   z ~ N(0, 1),      σ = exp(t u) ("log_normal")  or  σ = t tan(π Φ(u)/2), half-Cauchy,   u ~ N(0, 1).

The position holds z and u, so the scale is part of what is sampled and the weights of a layer shrink or grow together.
s is where σ begins to count from: σ has the median 1, of half-Cauchys t.

References
----------
Neal (1996), Bayesian learning for neural networks, §1.2.3, §3.
Gelman (2006), Prior distributions for variance parameters in hierarchical models, §3.2 (half-Cauchy).
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import jax.numpy as jnp

from langevin.core.record import positive, record, static
from langevin.nets.priors.half_cauchy import log_half_cauchy, of_half_cauchy
from langevin.nets.priors.prior import NonCentered

Hyper = Literal["log_normal", "half_cauchy"]


@record
class HierarchicalPrior(NonCentered):
    """Normal weights with a learned scale for every array.

    scale: s: a number, "fan_in" or a dict of path patterns.
    spread: t: the standard deviation of log σ, or the median of a half-Cauchy σ.
    hyper: "log_normal" or "half_cauchy".
    layout: what is known of the net; `bnn` fills it in.
    """

    scale: Any = "fan_in"
    spread: float = positive(default=1.0)
    hyper: Hyper = static(default="log_normal")
    layout: Any = static(default=None)

    def __post_init__(self):
        if self.hyper not in get_args(Hyper):
            raise ValueError(f"HierarchicalPrior: hyper is {self.hyper!r}; it must be 'log_normal' or 'half_cauchy'.")

    def extra(self):
        return {name: jnp.zeros(()) for name in self.known().names}

    def scales(self, extra):
        if self.hyper == "log_normal":
            return {name: jnp.exp(self.spread * u) for name, u in extra.items()}
        return {name: self.spread * jnp.exp(log_half_cauchy(u)) for name, u in extra.items()}

    def begin(self, size):
        if self.hyper == "log_normal":
            return {k: jnp.clip(jnp.log(jnp.maximum(v, 1e-6)) / self.spread, -2.0, 2.0) for k, v in size.items()}
        return {k: of_half_cauchy(v / self.spread) for k, v in size.items()}
