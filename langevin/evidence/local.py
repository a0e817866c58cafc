r"""What a target looks like at its mode: where it is, how stiff it is there, and what it cost to find out.

The mode m by L-BFGS on all data; the diagonals of −∇²log p̃ and −∇²log q there; and L, the largest eigenvalue of
D^{−½} (−∇²log p̃) D^{−½} with D that diagonal: from the Hessian up to EXACT coordinates, by Hutchinson's probes and
power iteration beyond. On a path q^{1−β} p̃^β the curvature is then about (1 − β) Q + β D coordinate by coordinate, and
steps of η_j² ((1 − β) Q_j + β L D_j) < 4 are stable.

References
----------
Bekas, Kokiopoulou & Saad (2007), An estimator for the diagonal of a matrix.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree

from langevin.core.types import PyTree
from langevin.evidence.climb import climbed

EXACT = 64  # coordinates up to which every one is looked at
PROBES = 64
POWER = 16  # turns of the power iteration


class Local(NamedTuple):
    """A target at its mode.

    mode: m.
    curvature: the diagonal of −∇²log p̃ at m, a tree like the position, positive.
    base: the same of the base.
    top: L.
    hessian: −∇²log p̃ over the raveled position, (d, d), or None beyond EXACT coordinates.
    n_eval: gradients of all data it took; a product with the Hessian counts as two.
    """

    mode: PyTree
    curvature: PyTree
    base: PyTree
    top: Any
    hessian: Any
    n_eval: Any


def local(target: Any, base: Any, start: PyTree, *, steps: int = 100, least: float = 0.01) -> Local:
    """Climb from `start` until a step gains less than `least` nats, and look around."""
    found = _looked(target, base, start, steps, least)
    if not bool(jnp.isfinite(found.top)):
        raise ValueError(
            "evidence: the climb to the mode ended where the log density or its curvature is not finite; "
            "start nearer to it, or pass `mode` and step sizes."
        )
    return found


@jax.jit
def _looked(target, base, start, steps, least):
    flat, unravel = ravel_pytree(start)
    density = lambda x: target.log_density(unravel(x))
    mode, n_climb = climbed(density, flat, steps=steps, least=least)
    diagonal, top, hessian, n_look = _curved(density, mode)
    around, _, _, _ = _curved(lambda x: base.log_density(unravel(x)), mode)
    n_eval = n_climb + n_look
    return Local(unravel(mode), unravel(diagonal), unravel(around), top, hessian, n_eval)


def _product(density, x):
    """v ↦ −∇²log p̃ v."""
    return lambda v: -jax.jvp(jax.grad(density), (x,), (v,))[1]


def _curved(density, x):
    """The diagonal of −∇²log p̃, L, −∇²log p̃ if small, and gradients spent; beyond, probes and power iteration."""
    d, product = x.shape[0], _product(density, x)
    if d <= EXACT:
        hessian = lax.map(product, jnp.eye(d, dtype=x.dtype))
        diagonal = _positive(jnp.diagonal(hessian))
        root = jnp.sqrt(diagonal)
        scaled = hessian / (root[:, None] * root[None])
        return diagonal, jnp.max(jnp.linalg.eigvalsh(0.5 * (scaled + scaled.T))), hessian, 2 * d
    signs = jax.random.rademacher(jax.random.key(0), (PROBES, d), x.dtype)
    diagonal = _positive(jnp.mean(lax.map(lambda z: z * product(z), signs), axis=0))
    return diagonal, _top(product, jnp.sqrt(diagonal)), None, 2 * (PROBES + POWER)


def _positive(diagonal):
    """Directions in which the mode is not a maximum have no scale of their own."""
    return jnp.maximum(jnp.abs(diagonal), 1e-6 * jnp.max(jnp.abs(diagonal)))


def _top(product, root):
    def turn(carry, _):
        v, _ = carry
        w = product(v / root) / root
        size = jnp.linalg.norm(w)
        return (w / jnp.maximum(size, 1e-30), size), None

    begin = jax.random.normal(jax.random.key(1), root.shape, root.dtype)
    (_, size), _ = lax.scan(turn, (begin / jnp.linalg.norm(begin), jnp.ones((), root.dtype)), length=POWER)
    return jnp.maximum(size, 1.0)
