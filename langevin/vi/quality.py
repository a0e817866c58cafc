r"""How good a fit is: weights p̃/q of draws from q, the shape k̂ of their tail, and q as a base for the evidence.

k̂ is the shape of the generalised Pareto distribution of the largest weights. Below 0.7 importance weights of q's draws
give reliable averages of p; above it q is far from p where it matters, mostly too narrow. It is no verdict on
predictions, which can be good with any k̂.

References
----------
Yao, Vehtari, Simpson & Gelman (2018), Yes, but did it work? Evaluating variational inference.
Vehtari, Simpson, Gelman, Yao & Gabry (2024), Pareto smoothed importance sampling.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core.kernel import PerChain, innermost
from langevin.core.posterior import Posterior
from langevin.core.record import record
from langevin.core.target import Exact
from langevin.core.types import Key, PyTree
from langevin.evidence.weights import fit_pareto
from langevin.vi.family import Approximation, HasLogProb, check_family
from langevin.vi.independent import Independent

GOOD = 0.7  # k̂ up to which weights can be relied on
FEW = 50  # draws below which k̂ says nothing


@record
class Together(Exact):
    """Several fits as one distribution, each with the same share.

    each: an Approximation whose arrays have a leading axis of fits.
    """

    each: Approximation

    def log_density(self, position):
        values = jax.vmap(lambda one: one.log_density(position))(self.each)
        return jax.nn.logsumexp(values) - jnp.log(values.shape[0])

    def exact(self, key: Key, n: int) -> PyTree:
        k_which, k_draw = jax.random.split(key)
        fits = jax.tree.leaves(self.each)[0].shape[0]
        which = jax.random.permutation(k_which, jnp.arange(n) % fits)
        one = lambda key, i: self._of(i).family.sample(key, self._of(i).params)
        return jax.vmap(one)(jax.random.split(k_draw, n), which)

    def _of(self, i: Any) -> Approximation:
        return jax.tree.map(lambda u: u[i], self.each)


def approximation(posterior: Posterior, fit: int | None = None) -> Approximation | Together:
    """q of a fitted posterior, or of one of its fits: a base for `log_evidence`, with `log_density` and `exact`."""
    kernel = posterior.kernel
    drawn = innermost(kernel)
    if not isinstance(drawn, Independent):
        raise TypeError(
            f"vi.approximation: the posterior is of {type(drawn).__name__}, which samples; pass one of vi.fit."
        )
    q = Approximation(drawn.family, drawn.params)
    if not isinstance(kernel, PerChain):
        return q
    fits = jax.tree.leaves(q)[0].shape[0]
    if fit is None and fits > 1:
        return Together(q)
    if not -fits <= (fit or 0) < fits:
        raise ValueError(f"vi.approximation: fit is {fit}, but there are {fits}.")
    return jax.tree.map(lambda u: u[fit or 0], q)


def log_weights(posterior: Posterior) -> np.ndarray:
    """log p̃ − log q of every draw (fit, draw); the target's density must have been exact while drawing."""
    drawn = innermost(posterior.kernel)
    q = approximation(posterior, 0)
    check_family(q.family, HasLogProb, "vi.log_weights")
    draws = posterior.loaded().draws
    wide = isinstance(posterior.kernel, PerChain)
    log_q = _log_q(drawn.family, drawn.params, draws, wide)
    return np.asarray(posterior.info.log_density, np.float64) - np.asarray(log_q, np.float64)


@jax.jit(static_argnames="wide")
def _log_q(family, params, draws, wide):
    chain = lambda family, params, some: jax.lax.map(lambda x: family.log_prob(params, x), some, batch_size=64)
    return jax.vmap(chain, (0, 0, 0) if wide else (None, None, 0))(family, params, draws)


def pareto_k(posterior: Posterior) -> np.ndarray:
    """k̂ of every fit; NaN with fewer than 50 draws or with weights that are not finite."""
    log_w = log_weights(posterior)
    fine = lambda row: len(row) >= FEW and np.isfinite(row).all()
    return np.asarray([fit_pareto(row)[0] if fine(row) else np.nan for row in log_w])
