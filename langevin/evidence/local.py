r"""What a target looks like at its mode: where it is, how stiff it is there, and what it cost to find out.

The mode m by L-BFGS on all data; the diagonals of −∇²log p̃ and −∇²log q there, exactly up to EXACT coordinates and by
Hutchinson's probes beyond; and L, the largest eigenvalue of D^{−½} (−∇²log p̃) D^{−½} with D that diagonal, by power
iteration. On a path q^{1−β} p̃^β the curvature is then about (1 − β) Q + β D coordinate by coordinate, and steps of
η_j² ((1 − β) Q_j + β L D_j) < 4 are stable.

References
----------
Nocedal & Wright (2006), Numerical Optimization, algorithm 7.5 (L-BFGS).
Bekas, Kokiopoulou & Saad (2007), An estimator for the diagonal of a matrix.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.flatten_util import ravel_pytree

from langevin.core.types import PyTree

EXACT = 64  # coordinates up to which every one is looked at
PROBES = 64
POWER = 16  # turns of the power iteration


class Local(NamedTuple):
    """A target at its mode.

    mode: m.
    curvature: the diagonal of −∇²log p̃ at m, a tree like the position, positive.
    base: the same of the base.
    top: L.
    n_eval: gradients of all data it took; a product with the Hessian counts as two.
    """

    mode: PyTree
    curvature: PyTree
    base: PyTree
    top: Any
    n_eval: Any


def local(target: Any, base: Any, start: PyTree, *, steps: int = 100, tolerance: float = 1e-3) -> Local:
    """Climb from `start` until the gradient is below `tolerance` of its first size, and look around."""
    found = _looked(target, base, start, steps, tolerance)
    if not bool(jnp.isfinite(found.top)):
        raise ValueError(
            "evidence: the climb to the mode ended where the log density or its curvature is not finite; "
            "start nearer to it, or pass `mode` and step sizes."
        )
    return found


def _looked(target, base, start, steps, tolerance):
    return jax.jit(_look, static_argnums=3)(target, base, start, steps, tolerance)


def _look(target, base, start, steps, tolerance):
    flat, unravel = ravel_pytree(start)
    density = lambda x: target.log_density(unravel(x))
    mode, n_climb = _climbed(density, flat, steps, tolerance)
    diagonal, n_diagonal = _diagonal(density, mode)
    # directions in which the mode is not a maximum have no scale of their own
    floor = 1e-6 * jnp.max(jnp.abs(diagonal))
    diagonal = jnp.maximum(jnp.abs(diagonal), floor)
    around, _ = _diagonal(lambda x: base.log_density(unravel(x)), mode)
    top = _top(density, mode, diagonal)
    n_eval = n_climb + n_diagonal + 2 * POWER
    return Local(unravel(mode), unravel(diagonal), unravel(jnp.maximum(around, 0.0)), top, n_eval)


def _climbed(density, start, steps, tolerance):
    loss = lambda x: -density(x)
    optimiser = optax.lbfgs()
    both = optax.value_and_grad_from_state(loss)
    first = jnp.linalg.norm(jax.grad(loss)(start))

    def going(carry):
        _, _, i, _, size = carry
        return (i < steps) & (size > tolerance * first) & jnp.isfinite(size)

    def step(carry):
        x, state, i, n, _ = carry
        value, grad = both(x, state=state)
        update, state = optimiser.update(grad, state, x, value=value, grad=grad, value_fn=loss)
        x = optax.apply_updates(x, update)
        tried = state[-1].info.num_linesearch_steps
        return x, state, i + 1, n + tried, jnp.linalg.norm(optax.tree.get(state, "grad"))

    begin = start, optimiser.init(start), jnp.zeros((), jnp.int32), jnp.ones((), jnp.int32), first
    x, _, _, n, _ = lax.while_loop(going, step, begin)
    return x, n


def _product(density, x):
    """v ↦ −∇²log p̃ v."""
    return lambda v: -jax.jvp(jax.grad(density), (x,), (v,))[1]


def _diagonal(density, x):
    d, product = x.shape[0], _product(density, x)
    if d <= EXACT:
        one = lambda i: product(jax.nn.one_hot(i, d, dtype=x.dtype))[i]
        return lax.map(one, jnp.arange(d)), 2 * d
    signs = jax.random.rademacher(jax.random.key(0), (PROBES, d), x.dtype)
    return jnp.mean(lax.map(lambda z: z * product(z), signs), axis=0), 2 * PROBES


def _top(density, x, diagonal):
    product, root = _product(density, x), jnp.sqrt(diagonal)

    def turn(carry, _):
        v, _ = carry
        w = product(v / root) / root
        size = jnp.linalg.norm(w)
        return (w / jnp.maximum(size, 1e-30), size), None

    begin = jax.random.normal(jax.random.key(1), x.shape, x.dtype)
    (_, size), _ = lax.scan(turn, (begin / jnp.linalg.norm(begin), jnp.ones((), x.dtype)), length=POWER)
    return jnp.maximum(size, 1.0)
