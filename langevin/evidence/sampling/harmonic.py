r"""The harmonic mean: here to be compared with, and not to be used.

    1/Z = E_p[q/p̃],   so   log Z ≈ −log (1/S) Σ_s q(θ_s)/p̃(θ_s),      θ_s draws of the posterior p = p̃/Z,

with q a normalised distribution; q the prior makes it the harmonic mean of the likelihood. It is consistent, but the
mean rests on draws where p̃/q is very small, which a posterior chain never visits: the variance ∫ q²/p̃ − 1/Z is
infinite for almost every model, no sample size helps, and the result hardly depends on the prior, while Z does. It is
too large by many nats as a rule. The standard error is given as ∞.

References
----------
Newton & Raftery (1994), Approximate Bayesian inference with the weighted likelihood bootstrap.
Neal (2008), The harmonic mean of the likelihood: worst Monte Carlo method ever.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core.kernel import warn_once
from langevin.evidence.base import log_ratios
from langevin.evidence.method import Method, method
from langevin.evidence.types import Evidence, cost
from langevin.evidence.weights import average


@method("harmonic")
class Harmonic(Method):
    """The harmonic mean over posterior draws (chain, draw, …), with a warning: guarantee "none"."""

    minibatches = "ignored"
    needs_draws = True

    def estimate_evidence(self, key, target, base, draws) -> Evidence:
        warn_once(
            "harmonic: the variance of the harmonic mean is infinite for almost every model, because it rests on draws "
            "of tiny likelihood that a posterior chain never visits; its value is usually far too large, whatever the "
            "number of draws. Take ais, bridge or thermo."
        )
        flatten = lambda u: jnp.asarray(u).reshape(np.shape(u)[0] * np.shape(u)[1], *np.shape(u)[2:])
        log_w = -np.asarray(log_ratios(target, base, jax.tree.map(flatten, draws)), np.float64)
        value, _, ess = average(log_w)
        return Evidence(-value, np.inf, ess=ess, guarantee="none", **cost(len(log_w), target))
