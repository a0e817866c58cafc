r"""Two normals around zero, a narrow and a wide one: a continuous form of "the weight is there, or it is not".

    p(w) = π N(w; 0, s²) + (1 − π) N(w; 0, (r s)²),      r ≪ 1.

In place of 1/variance metrics take E[1/variance | w], the mean over which of the two w is from.

References
----------
Blundell, Cornebise, Kavukcuoglu & Wierstra (2015), Weight uncertainty in neural networks, eq. (7).
George & McCulloch (1993), Variable selection via Gibbs sampling, eq. (2).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from langevin.core.record import positive, record, static
from langevin.nets.priors.prior import HALF_LOG_2PI, PerWeight


@record
class SpikeAndSlabPrior(PerWeight):
    """Weights from a mixture of two normals around zero.

    scale: s, of the slab: a number, "fan_in" or a dict of path patterns.
    spike: r, of the spike's standard deviation to the slab's; below 1.
    share: π, of the slab; below 1.
    layout: what is known of the net; `bnn` fills it in.
    """

    scale: Any = 1.0
    spike: float = positive(default=0.05)
    share: float = positive(default=0.5)
    layout: Any = static(default=None)

    def __post_init__(self):
        check_share(self)

    def _parts(self, w, s):
        """log π_k N(w; 0, s_k²) of slab and spike, and their s_k."""
        scales = jnp.stack([s, s * self.spike]).reshape(2, *[1] * w.ndim)
        log_share = jnp.log(jnp.stack([self.share, 1 - self.share])).reshape(scales.shape)
        wide = jnp.broadcast_to(scales, (2, *w.shape))
        return log_share - 0.5 * (w[None] / wide) ** 2 - jnp.log(scales) - HALF_LOG_2PI, wide

    def log_prob(self, w, s):
        return jax.nn.logsumexp(self._parts(w, s)[0], axis=0)

    def sample_weight(self, key, shape, s):
        k_which, k_draw = jax.random.split(key)
        slab = jax.random.bernoulli(k_which, self.share, shape)
        return jnp.where(slab, s, s * self.spike) * jax.random.normal(k_draw, shape)

    def curvature(self, w, s):
        log_parts, scales = self._parts(w, s)
        return jnp.sum(jax.nn.softmax(log_parts, axis=0) / scales**2, axis=0)


def check_share(prior: Any) -> None:
    """Refuse numbers that are not below 1."""
    for name in ("spike", "share"):
        value = getattr(prior, name)
        if not isinstance(value, jax.core.Tracer) and not value < 1:
            raise ValueError(f"{type(prior).__name__}: {name} is {float(value):g}; it must be above 0 and below 1.")
