r"""Ladders: inverse temperatures 0 = β_0 < β_1 < … < β_K = 1 from base to target, as arrays (K + 1,).

    power_ladder     β_k = (k/K)^p; p = 1 is linear, larger p spends more of the rungs near the base
    sigmoid_ladder   σ(u_k) on equally spaced u in [−w, w], stretched to [0, 1]

References
----------
Friel & Pettitt (2008), Marginal likelihood estimation via power posteriors (`power_ladder`).
Zhang, Hsu, Li, Finn & Grosse (2021), Differentiable annealed importance sampling: the schedule by which the code
  released with it evaluates models (`sigmoid_ladder`).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def power_ladder(n: int, power: float = 2.0) -> jax.Array:
    """β_k = (k/n)^power, k = 0 … n."""
    return jnp.asarray((np.arange(n + 1) / n) ** power)


def sigmoid_ladder(n: int, width: float = 4.0) -> jax.Array:
    """A logistic curve from −width to width, stretched to [0, 1]."""
    u = 1 / (1 + np.exp(-np.linspace(-width, width, n + 1)))
    return jnp.asarray((u - u[0]) / (u[-1] - u[0]))


def to_ladder(ladder: int | Any) -> jax.Array:
    """A ladder as an array, checked: a number of steps becomes a `power_ladder`."""
    if isinstance(ladder, (int, np.integer)):
        if ladder < 1:
            raise ValueError(f"evidence: ladder is {ladder}; it must be one step or more.")
        return power_ladder(int(ladder))
    beta = jnp.asarray(ladder)
    if isinstance(beta, jax.core.Tracer):
        return beta
    if beta.ndim != 1 or len(beta) < 2 or float(beta[0]) != 0.0 or abs(float(beta[-1]) - 1.0) > 1e-6:
        raise ValueError("evidence: a ladder is a list of numbers that begins with 0 and ends with 1.")
    fall = np.flatnonzero(np.diff(np.asarray(beta)) <= 0)
    if len(fall):
        i = int(fall[0])
        raise ValueError(
            f"evidence: the ladder must rise; its entries {i} and {i + 1} are {beta[i]:.6g} and {beta[i + 1]:.6g}."
        )
    return beta


def to_host_ladder(ladder: int | Any) -> np.ndarray:
    """The same as a NumPy array, to be cut and turned around."""
    return np.asarray(to_ladder(ladder), jax.dtypes.canonicalize_dtype(float))
