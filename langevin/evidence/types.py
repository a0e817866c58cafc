"""What every method returns: an estimate of log Z, its error, bounds, cost, and a guarantee in one word.

    unbiased-Z   E e^{log_z} = Z, so log_z is below log Z on average, and above it by c with probability at most e^{−c}
    lower        E lower ≤ log Z
    upper        E upper ≥ log Z
    consistent   log_z → log Z as more is spent; at any cost it may lie on either side
    none         neither

The unbiased ones have a lower bound too. `BDMC` has both bounds, and says "unbiased-Z" of its log_z.
"""

from __future__ import annotations

from typing import Any, Literal

import jax.numpy as jnp

from langevin.core.record import record, static
from langevin.core.target import examples

Guarantee = Literal["unbiased-Z", "lower", "upper", "consistent", "none"]


@record
class Evidence:
    """log Z of a target, by one method.

    log_z: the estimate.
    stderr: its standard error.
    lower: at most log Z on average; −∞ where the method has no such bound.
    upper: at least log Z on average; ∞ where it has none.
    ess: the effective number of independent weights behind log_z.
    n_grad: gradients of the log density, of all particles together; where a method needs values only, those.
    n_data: examples evaluated, of all particles together.
    guarantee: "unbiased-Z", "lower", "upper", "consistent" or "none".
    """

    log_z: Any
    stderr: Any
    lower: Any = -jnp.inf
    upper: Any = jnp.inf
    ess: Any = 1.0
    n_grad: Any = 0
    n_data: Any = 0
    guarantee: Guarantee = static(default="none")


def cost(n_grad: Any, target: Any) -> dict[str, Any]:
    """The fields of an Evidence that say what it took: so many gradients of all data."""
    return dict(n_grad=n_grad, n_data=n_grad * examples(target))
