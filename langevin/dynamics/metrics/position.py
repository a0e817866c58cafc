r"""A metric of the position alone: no gradient enters, so Γ is one backward pass through no data.

    D_b = ψ_b(θ_b) (one number per leaf), or D_i = ψ_i(θ_i) (one per coordinate);      Γ = ∇_θ Σ D.

For ψ_b = |w|² + ε, which makes a step as long as the weights it changes, Γ_b = 2w. This answers the question of
Rensmeyer & Niggemann whether metrics of parameters alone allow a cheap Γ.

References
----------
Rensmeyer & Niggemann (2024), On the convergence of locally adaptive and scalable diffusion-based sampling methods, §5.
Lange, Deng, Ye & Lin (2023), Batch normalization preconditioning for stochastic gradient Langevin dynamics.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from langevin.core.record import positive, record
from langevin.dynamics.metrics.diagonal import Elementwise


@record
class Norms:
    """ψ_b(θ_b) = |θ_b|² + ε for every leaf.

    floor: ε.
    """

    floor: float = positive(default=1.0)

    def __call__(self, position):
        return jax.tree.map(lambda w: jnp.sum(w**2) + self.floor, position)


@record
class Squares:
    """ψ_i(θ_i) = θ_i² + ε for every coordinate.

    floor: ε.
    """

    floor: float = positive(default=1.0)

    def __call__(self, position):
        return jax.tree.map(lambda w: w**2 + self.floor, position)


@record
class Position(Elementwise):
    """D = ψ(θ), Γ in closed form.

    scale: position → tree of D: one number a leaf that depends on that leaf alone, or one a coordinate that depends on
        that coordinate alone; a record or a module-level function.
    """

    scale: Callable = Norms()
    kind = "position"

    def geometry(self, memory, grad, position):
        return self.scale(position)

    def divergence(self, position):
        total = lambda position: sum((jnp.sum(d) for d in jax.tree.leaves(self.scale(position))), jnp.zeros(()))
        return jax.grad(total)(position)

    words = "D = ψ(θ)"
