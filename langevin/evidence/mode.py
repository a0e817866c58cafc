r"""The mode of a target, by L-BFGS, and the curvature there.

`climb` ends when a step gains less than was asked for, or than the precision of the log density shows. At the mode m of
the density of all data `find_mode` has the diagonals of −∇²log p̃ and −∇²log q, and L, the largest eigenvalue of
D^{−½} (−∇²log p̃) D^{−½} with D the first diagonal: from the Hessian up to EXACT coordinates, by Hutchinson's probes and
power iteration beyond. On a path q^{1−β} p̃^β the curvature is then about (1 − β) Q + β D coordinate by coordinate, and
steps of η_j² ((1 − β) Q_j + β L D_j) < 4 are stable.

References
----------
Nocedal & Wright (2006), Numerical Optimization, algorithm 7.5 (L-BFGS).
Bekas, Kokiopoulou & Saad (2007), An estimator for the diagonal of a matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.flatten_util import ravel_pytree

from langevin.core.types import PyTree

EXACT = 64  # coordinates up to which the whole Hessian is computed
PROBES = 64
POWER = 16  # turns of the power iteration


def climb(density: Callable[[jax.Array], Any], start: jax.Array, *, steps: Any, least: float = 0.0):
    """Maximise a function of (d,): where the climb ends, and how many gradients it took.

    steps: at most. least: nats that a step must gain for another one.
    """
    loss = lambda x: -density(x)
    optimizer = optax.lbfgs()
    both = optax.value_and_grad_from_state(loss)
    tiny = 4 * jnp.finfo(start.dtype).eps

    def going(carry):
        _, _, i, _, gain, value = carry
        return (i < steps) & (gain > jnp.maximum(least, tiny * jnp.maximum(jnp.abs(value), 1.0)))

    def step(carry):
        x, state, i, n, _, _ = carry
        value, grad = both(x, state=state)
        update, state = optimizer.update(grad, state, x, value=value, grad=grad, value_fn=loss)
        tried = state[-1].info.num_linesearch_steps.astype(jnp.int32)
        gain = value - optax.tree.get(state, "value")
        return optax.apply_updates(x, update), state, i + 1, n + tried, gain, value

    zero, far = jnp.zeros((), jnp.int32), jnp.asarray(jnp.inf, start.dtype)
    begin = start, optimizer.init(start), zero, zero, far, jnp.ones((), start.dtype)
    x, _, _, n, _, _ = lax.while_loop(going, step, begin)
    return x, n


class Mode(NamedTuple):
    """A target at its mode.

    position: m.
    curvature: the diagonal of −∇²log p̃ at m, a tree like the position, positive.
    base: the same of the base.
    top: L.
    hessian: −∇²log p̃ over the raveled position, (d, d), or None beyond EXACT coordinates.
    n_eval: gradients of all data it took; a product with the Hessian counts as two.
    """

    position: PyTree
    curvature: PyTree
    base: PyTree
    top: Any
    hessian: Any
    n_eval: Any


def find_mode(target: Any, base: Any, start: PyTree, *, steps: int = 100, least: float = 0.01) -> Mode:
    """Climb from `start` until a step gains less than `least` nats, and measure the curvature there."""
    found = _find(target, base, start, steps, least)
    if not bool(jnp.isfinite(found.top)):
        raise ValueError(
            "evidence: the climb to the mode ended where the log density or its curvature is not finite; "
            "start nearer to it, or pass step sizes."
        )
    return found


@jax.jit
def _find(target, base, start, steps, least):
    flat, unravel = ravel_pytree(start)
    density = lambda x: target.log_density(unravel(x))
    mode, n_climb = climb(density, flat, steps=steps, least=least)
    diagonal, top, hessian, n_curvature = _curvature(density, mode)
    around, _, _, _ = _curvature(lambda x: base.log_density(unravel(x)), mode)
    n_eval = n_climb + n_curvature
    return Mode(unravel(mode), unravel(diagonal), unravel(around), top, hessian, n_eval)


def _product(density, x):
    """v ↦ −∇²log p̃ v."""
    return lambda v: -jax.jvp(jax.grad(density), (x,), (v,))[1]


def _curvature(density, x):
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
