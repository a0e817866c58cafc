r"""The identity less a rank-one part along the gradient: the metric the graph of log p inherits.

    G = I + α² m mᵀ,      D = I − c m mᵀ,   c = α²/(1 + α²|m|²),      m = β m + (1 − β) g,
    √D = I − α²/(σ(1 + σ)) m mᵀ,      √D⁻¹ = I + α²/(1 + σ) m mᵀ,      σ = √(1 + α²|m|²).

Over the whole tree, or leaf by leaf (rank one in every leaf: a low-rank metric). For β = 0,
Γ = −c Hg − c tr(H) g + 2c² (gᵀHg) g: one Hessian product and a trace.

References
----------
Hartmann, Girolami & Klami (2022), Lagrangian manifold Monte Carlo on Monge patches, §3.
Yu, Hartmann, Williams & Klami (2023), Scalable stochastic gradient Riemannian Langevin dynamics in non-diagonal
    metrics, §3.
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp

from langevin.core import tree
from langevin.core.record import nonnegative, record, static
from langevin.dynamics.metrics.averaging import Averaging


@record
class MongeMetric(Averaging):
    """D = (I + α² m mᵀ)⁻¹, m the gradient or its moving average.

    alpha: α² of the metric (not its root).
    decay: β of the moving average; 0 for the present gradient alone.
    per: "tree", one direction for all, or "leaf", one for every leaf.
    """

    alpha: float = nonnegative(default=1.0)
    decay: float = static(default=0.0)
    per: Literal["tree", "leaf"] = static(default="tree")
    diagonal = False

    def update(self, memory, grad, count):
        if not self.decay:
            return ()
        return tree.axpy(1 - self.decay, grad, tree.scale(self.decay, memory))

    def geometry(self, memory, grad, position):
        m = memory if self.decay else grad
        return m, self._dots(m, m)

    def apply(self, geometry, v):
        return self._plus(geometry, v, lambda q: -self.alpha / (1 + self.alpha * q))

    def root(self, geometry, v):
        def factor(q):
            sigma = jnp.sqrt(1 + self.alpha * q)
            return -self.alpha / (sigma * (1 + sigma))

        return self._plus(geometry, v, factor)

    def unroot(self, geometry, v):
        return self._plus(geometry, v, lambda q: self.alpha / (1 + jnp.sqrt(1 + self.alpha * q)))

    def tilt(self, geometry):
        squares = jax.tree.leaves(geometry[1])
        squares = squares if self.per == "leaf" else squares[:1]
        return -sum((jnp.log1p(self.alpha * q) for q in squares), jnp.zeros(()))

    def _dots(self, x, y):
        """m·v for every leaf: of that leaf, or of the whole tree."""
        if self.per == "leaf":
            return jax.tree.map(tree.dot, x, y)
        whole = tree.dot(x, y)
        return jax.tree.map(lambda _: whole, x)

    def _plus(self, geometry, v, factor):
        m, squares = geometry
        one = lambda u, w, q, a: (u + factor(q) * a * w).astype(u.dtype)
        return jax.tree.map(one, v, m, squares, self._dots(m, v))

    words = "D = (I + α² g gᵀ)⁻¹"
