r"""The value of an objective at a fit, with its standard error: how tight a bound is, and how bounds compare.

    mean over n evaluations of the objective's estimate, each from its own K draws of q_φ.

At one φ, log Z ≥ IWAE ≥ VR-IWAE of order α ≥ ELBO for 0 ≤ α ≤ 1, and each rises with K.

References
----------
Burda, Grosse & Salakhutdinov (2016), Importance weighted autoencoders, theorem 1.
Daudel, Benton, Shi & Doucet (2023), Alpha-divergence variational inference meets importance weighted auto-encoders.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core.target import HasDensity, need
from langevin.core.types import Key
from langevin.vi.family import Approximation
from langevin.vi.objectives.base import Objective, each
from langevin.vi.objectives.elbo import ELBO
from langevin.vi.variational import Variational, joint

DEFAULT = ELBO()


class Bound(NamedTuple):
    """value: in nats; error: its standard error."""

    value: float
    error: float


def bound(key: Key, target: Any, q: Approximation, objective: Objective = DEFAULT, *, n: int = 1000) -> Bound:
    """The objective at q, on all data: `bound(key, target, approximation(posterior, 0), IWAE(50))`.

    n: evaluations, each of the objective's own number of draws.
    """
    need(target, HasDensity, "vi.bound")
    if not isinstance(objective, Objective):
        raise TypeError(
            f"vi.bound: {type(objective).__name__} is no function of weights; take ELBO, Renyi, IWAE or Chi."
        )
    if n < 2:
        raise ValueError(f"vi.bound: n is {n}; a standard error needs 2 or more evaluations.")
    values = np.asarray(_values(key, Variational(target, q.family, objective), q.params, n), np.float64)
    return Bound(float(values.mean()), float(values.std(ddof=1) / np.sqrt(n)))


@partial(jax.jit, static_argnames="n")
def _values(key, aim, params, n):
    def one(key):
        components, share = aim.shares(params)
        draw = lambda key, c: joint(aim.family, key, params, "total", c)
        positions, log_q = each(draw, jax.random.split(key, aim.count()), components)
        log_p = jax.lax.map(aim.target.log_density, positions, batch_size=64)
        return aim.objective.terms(log_p - log_q, share).value.astype(jnp.float32)

    return jax.lax.map(one, jax.random.split(key, n), batch_size=64)
