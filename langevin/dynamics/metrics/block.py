r"""One number per leaf of the position: a layer-wise step size.

    D_b = (mean_{i∈b} g_i² + λ²)^−s,      Γ_b = −(2s/n_b) (mean g² + λ²)^{−s−1} (H g_b)_b,

of order 1/n_b, so that a layer-wise metric is nearly right even without Γ. D is diagonal, so the end-point noise of
`hk2` and `pec` is right for it too.

References
----------
Wenzel et al. (2020), How good is the Bayes posterior in deep neural networks really?, app. D (layer-wise scales).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from langevin.core import tree
from langevin.core.record import positive, record
from langevin.dynamics.metrics.diagonal import Elementwise


@record
class Block(Elementwise):
    """D_b from the mean square gradient of leaf b.

    floor: λ, a number or a tree of numbers, one per leaf.
    power: s; ½ is RMSprop's, 1 is steeper.
    """

    floor: Any = positive(default=1.0)
    power: float = positive(default=0.5)
    kind = "gradient"

    def geometry(self, memory, grad, position):
        one = lambda g, f: (jnp.mean(jnp.asarray(g, jnp.float32) ** 2) + f**2) ** -self.power
        return jax.tree.map(one, grad, tree.fill(self.floor, grad))

    words = "D = (mean g² + λ²)^−s per leaf"
