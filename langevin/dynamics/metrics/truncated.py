r"""Steps cut where the gradient is long: the truncation of Atchadé, as a metric.

    max:  D = τ/max(τ, |g|),        smooth:  D = τ/√(τ² + |g|²),

in (0, 1], with |g| the norm over the whole position (`chain`: one number), of each coordinate, or over the channels of
each pixel of an image (channel, height, width). |D g| < τ: no step is longer than h τ in drift. The smooth form has the
same limits and no kink; D of a whole chain has Γ = ∇D = −τ H g (τ² + |g|²)^{−3/2}.

`window` > 1 keeps D for that many steps, as found at the first of them.

References
----------
Atchadé (2006), An adaptive version for the Metropolis adjusted Langevin algorithm with a truncated drift.
Karimi, Xie & Li (2023), STANLEY: stochastic gradient anisotropic Langevin dynamics, eq. (4).
"""

from __future__ import annotations

from typing import Literal, get_args

import jax
import jax.numpy as jnp
from jax import lax

from langevin.core import tree
from langevin.core.record import positive, record, static
from langevin.dynamics.metrics.diagonal import Elementwise

Form = Literal["max", "smooth"]
Per = Literal["chain", "coordinate", "pixel"]


def check(name: str, form: str, per: str) -> None:
    """Whether the words are known, said for the kernel that was given them."""
    for field, value, known in (("form", form, get_args(Form)), ("per", per, get_args(Per))):
        if value not in known:
            raise ValueError(f"{name}: {field} is {value!r}; it must be one of {known}.")


@record
class Truncated(Elementwise):
    """D from the length of the gradient, of all of it or of a part.

    threshold: τ, the length up to which D is 1 (max) or near it (smooth).
    form: "max" or "smooth".
    per: "chain", "coordinate" or "pixel".
    window: steps for which D is kept.
    """

    threshold: float = positive(default=1.0)
    form: Form = static(default="max")
    per: Per = static(default="chain")
    window: int = static(default=1)

    def __post_init__(self):
        check("Truncated", self.form, self.per)
        if not isinstance(self.window, int) or self.window < 1:
            raise ValueError(f"Truncated: window is {self.window}; it is a number of steps, 1 or more.")

    @property
    def kind(self):
        return "gradient" if self.window == 1 else "frozen"

    def start(self, position):
        if self.window == 1:
            return ()
        return self._sizes(tree.zeros_like(position))

    def update(self, memory, grad, count):
        if self.window == 1:
            return ()
        return tree.where(count % self.window == 0, self._sizes(grad), memory)

    def geometry(self, memory, grad, position):
        return memory if self.window > 1 else self._sizes(grad)

    def tilt(self, geometry):
        if self.per == "chain":  # one number, which every leaf repeats
            return jnp.log(jax.tree.leaves(geometry)[0])
        return super().tilt(geometry)

    def _sizes(self, grad):
        """D for every leaf: one number, one a coordinate, or (1, height, width)."""
        if self.per == "chain":
            d = self._cut(tree.dot(grad, grad))
            return jax.tree.map(lambda g: d, grad)
        return jax.tree.map(lambda g: self._cut(g**2 if self.per == "coordinate" else _channels(g)), grad)

    def _cut(self, square):
        # of squares, for the derivative of a length is not a number at 0
        tau = jnp.asarray(self.threshold, square.dtype)
        return tau * lax.rsqrt(jnp.maximum(square, tau**2) if self.form == "max" else square + tau**2)

    @property
    def words(self):
        size = {"chain": "|g|", "coordinate": "|g_i|", "pixel": "|g| over a pixel's channels"}[self.per]
        words = f"D = τ/max(τ, {size})" if self.form == "max" else f"D = τ/√(τ² + {size}²)"
        return words if self.window == 1 else f"{words} kept for {self.window} steps"


def _channels(g):
    if g.ndim != 3:
        raise ValueError(
            f"Truncated: per='pixel' takes positions (channel, height, width), and one has the shape {g.shape}; "
            "take per='chain' or 'coordinate'."
        )
    return jnp.sum(g**2, axis=0, keepdims=True)
