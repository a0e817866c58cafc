r"""A diagonal metric that stands still for a window, taken from the window before last.

    window k uses D = φ(v_{k−2}),      v_k = mean of g² over window k (or g² at its end).

Within a window Γ = 0. What is left is that each new metric remembers where the chain was: taken from the window
that has just ended (delay 0) the bias falls like 1/window (point) or 1/window² (mean); one window of delay makes it
exponentially small in window × h, for metric and state are then a whole window apart. Four relaxation times are
enough.

References
----------
Wenzel et al. (2020), How good is the Bayes posterior in deep neural networks really?, app. D (frozen preconditioners).
Rensmeyer & Niggemann (2024), On the convergence of locally adaptive and scalable diffusion-based sampling methods, §5
    (how long must a metric stand still).
"""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp

from langevin.core import tree
from langevin.core.record import positive, record, static
from langevin.dynamics.metrics.diagonal import Elementwise, scale


@record
class Windowed(Elementwise):
    """D from the gradients of an earlier window.

    floor: λ, a number or a tree like the position.
    window: steps a metric is kept.
    form: "smooth" (v + λ²)^−½ or "li" 1/(λ + √v).
    statistic: "mean" of g² over a window, or "point", its value at the end.
    delay: windows between the statistics and their use, 0 or 1.
    """

    floor: Any = positive(default=1.0)
    window: int = positive(default=1000)
    form: Literal["smooth", "li"] = static(default="smooth")
    statistic: Literal["mean", "point"] = static(default="mean")
    delay: int = static(default=1)

    def __post_init__(self):
        if self.delay not in (0, 1):
            raise ValueError(f"Windowed: delay is {self.delay}; it must be 0 or 1.")
        if self.statistic not in ("mean", "point"):
            raise ValueError(f"Windowed: statistic is {self.statistic!r}; it must be 'mean' or 'point'.")

    @property
    def kind(self):
        return "frozen"

    def start(self, position):
        """Of the window that runs, of the last, of the one in use; the first gradient stands in for all."""
        zero = tree.zeros_like(position)
        return zero, zero, zero

    def update(self, memory, grad, count):
        running, last, used = memory
        square = jax.tree.map(lambda g: g**2, grad)
        first, ends = count == 0, (count % jnp.asarray(self.window, jnp.int32)) == 0
        if self.statistic == "mean":
            running = tree.add(running, square)
            done = tree.scale(1.0 / self.window, running)
        else:
            done = square
        done = tree.where(first, square, done)
        before = tree.where(first, square, last)
        used = tree.where(ends, before if self.delay else done, used)
        last = tree.where(ends, done, last)
        running = tree.where(ends, tree.zeros_like(running), running)
        return running, last, used

    def geometry(self, memory, grad, position):
        return jax.tree.map(lambda v, f: scale(self.form, f, v), memory[2], tree.fill(self.floor, grad))

    @property
    def words(self):
        late = "one window late" if self.delay else "of the window before: a bias that falls like 1/window"
        return f"D frozen for {self.window} steps, {late}"
