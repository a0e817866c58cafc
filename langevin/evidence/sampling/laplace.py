r"""Laplace's method: log Z of the Gaussian that fits the target at its mode.

    log Z ≈ log p̃(m) + (d/2) log 2π − ½ log det H,      H = −∇²log p̃(m),

exact for a Gaussian, with an error of O(1/n) for a regular posterior of n examples; there is no error bar and no bound.
L-BFGS climbs to the mode, Newton's steps θ ← θ + H⁻¹g end the climb, and ½ gᵀH⁻¹g of the last one, what is left to
climb, is added. H is dense, one product with the Hessian for each parameter.

References
----------
Tierney & Kadane (1986), Accurate approximations for posterior moments and marginal densities.
Nocedal & Wright (2006), Numerical Optimization, algorithm 7.5 (L-BFGS).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree

from langevin.core import tree
from langevin.core.record import static
from langevin.core.types import PyTree
from langevin.evidence.base import LOG_2PI
from langevin.evidence.method import Method, method
from langevin.evidence.mode import climb
from langevin.evidence.types import Evidence, cost

LARGEST = 2000  # parameters of a dense Hessian
NEWTON = 5  # steps at the end
LEFT = 0.05  # nats left to climb that are still called the mode


@method("laplace")
class Laplace(Method):
    """Laplace's method, from a climb that begins at a draw of the base: guarantee "none".

    steps: of L-BFGS, at most.
    """

    steps: int = static(default=500)
    minibatches = "ignored"

    def estimate_evidence(self, key, target, base, draws) -> Evidence:
        return approximate(target, jax.tree.map(lambda u: u[0], base.exact(key, 1)), steps=self.steps)


def approximate(target: Any, start: PyTree, *, steps: int = 500) -> Evidence:
    """log Z of the Gaussian at the mode that is climbed to from `start`; steps: of L-BFGS, at most."""
    d = tree.size(start)
    if d > LARGEST:
        raise ValueError(
            f"laplace: {d} parameters, and a dense Hessian is made of {LARGEST} at most; "
            "take a method that needs none, such as ais, or fewer parameters."
        )
    like = jax.tree.map(lambda u: jnp.asarray(u, jnp.result_type(u, jnp.float32)), start)
    x, n = _climb(target, like, steps)
    n = int(n)
    for _ in range(NEWTON):
        value, grad, hessian = (np.asarray(u, np.float64) for u in _expand(target, like, x))
        if not (np.isfinite(value) and np.isfinite(grad).all() and np.isfinite(hessian).all()):
            raise ValueError("laplace: the log density, its gradient or Hessian is not finite on the way to the mode.")
        curvature, vectors = np.linalg.eigh(0.5 * (hessian + hessian.T))
        n = n + 1 + 2 * d
        bad = int((curvature <= 1e-7 * curvature[-1]).sum())
        if bad:
            raise ValueError(
                f"laplace: {bad} of {d} directions do not curve down where the climb ended (least curvature "
                f"{curvature[0]:.3g}): no mode with a Gaussian around it; start elsewhere, or check for parameters "
                "that data and prior leave free."
            )
        step = vectors @ ((vectors.T @ grad) / curvature)
        left = 0.5 * float(grad @ step)
        if left < 1e-6:
            break
        x = x + jnp.asarray(step, x.dtype)
    if left > LEFT:
        raise ValueError(f"laplace: {left:.3g} nats are left to climb after {steps} steps; start nearer to the mode.")
    log_z = float(value) + left + 0.5 * d * LOG_2PI - 0.5 * float(np.log(curvature).sum())
    return Evidence(np.asarray(log_z), np.nan, ess=np.nan, guarantee="none", **cost(n, target))


@jax.jit
def _climb(target, like, steps):
    start, unravel = ravel_pytree(like)
    return climb(lambda x: target.log_density(unravel(x)), start, steps=steps)


@jax.jit
def _expand(target, like, x):
    """log p̃, its gradient, and −∇²log p̃, a few columns at a time."""
    unravel = ravel_pytree(like)[1]
    density = lambda x: target.log_density(unravel(x))
    value, grad = jax.value_and_grad(density)(x)
    column = lambda v: -jax.jvp(jax.grad(density), (x,), (v,))[1]
    return value, grad, lax.map(column, jnp.eye(x.shape[0], dtype=x.dtype), batch_size=64)
