r"""The harmonic mean: here to be compared with, and not to be used.

    1/Z = E_p[q/p̃],   so   log Z ≈ −log (1/S) Σ_s q(θ_s)/p̃(θ_s),      θ_s draws of the posterior p = p̃/Z,

with q a normalised law; q the prior makes it the harmonic mean of the likelihood. It is consistent, but the mean lives
on draws where p̃/q is very small, which a posterior chain never callbacks: the variance ∫ q²/p̃ − 1/Z is infinite for
almost every model, no sample size helps, and what comes out hardly depends on the prior, while Z does. It is too large
by many nats as a rule. The standard error is given as ∞.

References
----------
Newton & Raftery (1994), Approximate Bayesian inference with the weighted likelihood bootstrap.
Neal (2008), The harmonic mean of the likelihood: worst Monte Carlo method ever.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core.kernel import warn_once
from langevin.core.types import Key, PyTree
from langevin.evidence.ais import averaged
from langevin.evidence.base import Base, examples
from langevin.evidence.importance import log_ratios
from langevin.evidence.types import Evidence


def harmonic(key: Key, target: Any, base: Base, draws: PyTree) -> Evidence:
    """log Z by the harmonic mean over posterior draws (chain, draw, …): guarantee "none", and a warning.

    key: not used; every method has one. base: q, the prior.
    """
    warn_once(
        "harmonic: the variance of the harmonic mean is infinite for almost every model, because it rests on draws of "
        "tiny likelihood that a posterior chain never visits; its value is usually far too large, whatever the number "
        "of draws. Take ais, bridge or thermo."
    )
    flat = jax.tree.map(lambda u: jnp.asarray(u).reshape(np.shape(u)[0] * np.shape(u)[1], *np.shape(u)[2:]), draws)
    log_w = -np.asarray(log_ratios(target, base, flat), np.float64)
    value, _, ess = averaged(log_w)
    n = len(log_w)
    how = dict(ess=ess, n_grad=n, n_data=n * examples(target), guarantee="none")
    return Evidence(-value, np.inf, **how)
