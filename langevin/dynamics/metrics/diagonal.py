r"""One number per coordinate, from the size of its gradient: the metric of RMSprop.

    v = β v + (1 − β) g²,      smooth: D = (v + λ²)^−½,      li: D = 1/(λ + √v).

For β = 0 it is D_i = φ(g_i) and Γ_i = φ′(g_i) H_ii: smooth −g_i H_ii D_i³, bounded by 0.385 |H_ii|/λ²; li
−sgn(g_i) H_ii D_i². The smooth form has no kink at g = 0. λ is the length over which the metric changes, in units of
the gradient: of the order of RMS(g_i), never 1e-8 (`tune.metric_floor` measures it).

References
----------
Li, Chen, Carlson & Carin (2016), Preconditioned stochastic gradient Langevin dynamics for deep neural networks, §3.
"""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp

from langevin.core import tree
from langevin.core.record import positive, record, static
from langevin.dynamics.metrics.averaging import Averaging


class Elementwise:
    """What all diagonal metrics share: the geometry is a tree of D, each leaf like the position's or one number."""

    diagonal = True

    def instant(self):
        """The same without memory."""
        return self

    def start(self, position):
        return ()

    def update(self, memory, grad, count):
        return memory

    def apply(self, geometry, v):
        return jax.tree.map(lambda d, u: _times(d, u), geometry, v)

    def root(self, geometry, v):
        return jax.tree.map(lambda d, u: _times(jnp.sqrt(d), u), geometry, v)

    def unroot(self, geometry, v):
        return jax.tree.map(lambda d, u: _times(jax.lax.rsqrt(d), u), geometry, v)

    def tilt(self, geometry):
        return sum((jnp.sum(jnp.log(d)) for d in jax.tree.leaves(geometry)), jnp.zeros(()))


def _times(d, u):
    return (jnp.broadcast_to(d, u.shape) * u).astype(u.dtype)


def scale(form: str, floor, square):
    """D from the mean square v, coordinate by coordinate."""
    if form == "smooth":
        return jax.lax.rsqrt(square + floor**2)
    return 1.0 / (floor + jnp.sqrt(square))


@record
class RMS(Averaging, Elementwise):
    """D_i from the size of the gradient of coordinate i.

    floor: λ, a number or a tree like the position.
    form: "smooth" (v + λ²)^−½ or "li" 1/(λ + √v).
    decay: β of the moving average of g²; 0 for the present gradient alone.
    """

    floor: Any = positive(default=1.0)
    form: Literal["smooth", "li"] = static(default="smooth")
    decay: float = static(default=0.0)

    def __post_init__(self):
        if self.form not in ("smooth", "li"):
            raise ValueError(f"RMS: form is {self.form!r}; it must be 'smooth' or 'li'.")
        if not 0 <= self.decay < 1:
            raise ValueError(f"RMS: decay is {self.decay}; it must be in [0, 1).")

    def update(self, memory, grad, count):
        if not self.decay:
            return ()
        b = self.decay
        return jax.tree.map(lambda v, g: (b * v + (1 - b) * g**2).astype(v.dtype), memory, grad)

    def geometry(self, memory, grad, position):
        floor = tree.fill(self.floor, grad)
        if self.decay:
            return jax.tree.map(lambda v, f: scale(self.form, f, v), memory, floor)
        if self.form == "li":  # |g| and not √g², whose derivative at 0 is not a number
            return jax.tree.map(lambda g, f: 1.0 / (f + jnp.abs(g)), grad, floor)
        return jax.tree.map(lambda g, f: scale("smooth", f, g**2), grad, floor)

    @property
    def words(self):
        return "D = 1/√(g² + λ²)" if self.form == "smooth" else "D = 1/(λ + |g|)"


@record
class Fixed(Elementwise):
    """A constant preconditioner.

    variance: D, a tree like the position (the best is the variance of the target) or a number.
    """

    variance: Any = 1.0
    kind = "frozen"

    def geometry(self, memory, grad, position):
        return tree.fill(self.variance, position)

    words = "D constant"
