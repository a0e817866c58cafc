r"""The way to a mode: L-BFGS on the log density, until a step gains less than is asked for, or than precision shows.

References
----------
Nocedal & Wright (2006), Numerical Optimization, algorithm 7.5 (L-BFGS).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import lax


def climbed(density: Callable[[jax.Array], Any], start: jax.Array, *, steps: Any, least: float = 0.0):
    """Where the climb of a function of (d,) ends, and how many of its gradients it took.

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
