r"""The ELBO of a distribution without a density: the gradient of its entropy is estimated from draws.

    ∇_φ ELBO = E [∂θ/∂φ · (∇log p̃(θ) − ∇log q(θ))],      ∇log q at K draws by Stein's identity: Ĝ = −(K + η I)⁻¹ ⟨∇, K⟩,

with K_ij an RBF kernel at the median distance and ⟨∇, K⟩_i = Σ_j ∇_{θ_j} K_ij. The value reported is the mean of log p̃
alone, for the entropy itself is not known. With many more coordinates than draws the estimate is a rough one.

References
----------
Li & Turner (2018), Gradient estimators for implicit models, eqs. (9), (11).
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from langevin.core.record import positive, record, static
from langevin.core.target import HasBatches
from langevin.core.types import Eval


@record
class SteinELBO:
    """The ELBO with the entropy's gradient from draws.

    draws: K.
    ridge: η.
    """

    requires: ClassVar[Any] = HasBatches
    draws: int = static(default=20)
    ridge: float = positive(default=0.01)

    def __post_init__(self):
        if self.draws < 3:
            raise ValueError(f"SteinELBO: draws is {self.draws}; distances between them need 3 or more.")

    def evaluate(self, key, rows, params, family: Any, target: Any) -> Eval:
        keys = jax.random.split(key, self.draws)
        positions, pull = jax.vjp(lambda params: jax.vmap(family.sample, (0, None))(keys, params), params)
        found = jax.vmap(lambda position: target.evaluate(rows, position))(positions)
        leaves, structure = jax.tree.flatten(positions)
        flat = jnp.concatenate([u.reshape(self.draws, -1) for u in leaves], axis=1)
        sizes = [u[0].size for u in leaves]
        cuts = [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)]
        parts = jnp.split(scores(flat, self.ridge), cuts, axis=1)
        own = jax.tree.unflatten(structure, [s.reshape(u.shape) for s, u in zip(parts, leaves, strict=True)])
        (grad,) = pull(jax.tree.map(lambda g, s: ((g - s) / self.draws).astype(g.dtype), found.grad, own))
        return Eval(jnp.mean(found.log_density), grad, jnp.sum(found.n_data))


def scores(x: jax.Array, ridge: Any) -> jax.Array:
    """∇log q at draws x (K, d)."""
    x = jax.lax.stop_gradient(x)
    square = jnp.sum((x[:, None] - x[None]) ** 2, axis=-1)
    width = jnp.maximum(jnp.median(square[jnp.triu_indices(len(x), 1)]), 1e-12)
    kernel = jnp.exp(-square / (2 * width))
    towards = (jnp.sum(kernel, axis=1)[:, None] * x - kernel @ x) / width  # Σ_j ∇_{x_j} K_ij
    return -jnp.linalg.solve(kernel + ridge * jnp.eye(len(x)), towards)
