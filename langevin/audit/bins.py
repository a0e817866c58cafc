r"""Total variation in bins: the yardstick of Rensmeyer & Niggemann (2024), bins of 0.1 on [−4, 4] and two tails.

    TV = ½ Σ_b |q_b − p_b|.

For independent draws its expectation under the null is about Σ_b √(p_b/2πn): 0.003 for 10⁵ draws.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr

EDGES = np.concatenate([[-np.inf], np.linspace(-4, 4, 81), [np.inf]])
NORMAL = np.asarray(jnp.diff(ndtr(jnp.asarray(EDGES))), np.float64)
NORMAL = NORMAL / NORMAL.sum()


def counts(x: Any) -> np.ndarray:
    """How many numbers fall into each bin; what is not a number falls into the last."""
    x = np.nan_to_num(np.asarray(x, np.float64).ravel(), nan=9.0).clip(-5, 5)
    return np.bincount(np.floor(10.0 * x + 40.0).astype(np.int64).clip(-1, 80) + 1, minlength=len(EDGES) - 1)


def shares(target: Any, shape: tuple[int, ...] = (1,)) -> np.ndarray:
    """The bin probabilities of a target on one number, whatever its normaliser, by quadrature."""
    fine, reach = 64, 12.0
    x = np.linspace(-reach, reach, int(20 * reach * fine) + 1)[:-1] + 0.05 / fine
    log_p = np.asarray(jax.vmap(lambda v: target.log_density(jnp.reshape(v, shape)))(jnp.asarray(x, float)), np.float64)
    p = np.exp(log_p - log_p.max())
    return np.bincount(np.floor(10.0 * x.clip(-5, 5) + 40.0).astype(int).clip(-1, 80) + 1, p, len(EDGES) - 1) / p.sum()


def tv(found: np.ndarray, expected: np.ndarray) -> float:
    """Total variation between counts or shares and shares."""
    return 0.5 * float(np.abs(found / found.sum() - expected).sum())
