r"""From log weights to an estimate: log mean w, its standard error, and the effective sample size.

With w_i independent and E w = Z, log (1/S) Σ w_i has the standard error √(Var w / S)/Z to first order, estimated by
√(Σ (w_i/w̄ − 1)² / (S (S − 1))), and the bias −½ of its square. ESS = (Σ w)²/Σ w².

References
----------
Kahan (1965), Further remarks on reducing truncation errors (`added`).
Grosse, Ghahramani & Adams (2015), Sandwiching the marginal likelihood using bidirectional Monte Carlo, §2.2.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from langevin.core.types import Scalar
from langevin.evidence.types import Evidence


def log_mean_exp(log_w: jax.Array, axis: int = 0) -> jax.Array:
    return logsumexp(log_w, axis=axis) - math.log(log_w.shape[axis])


def added(total: tuple, x: Scalar) -> tuple:
    """(sum, what it lost to rounding) with x added: 10⁶ float32 terms lose no more than one."""
    value, lost = total
    x = x - lost
    new = value + x
    return new, (new - value) - x


def effective(log_w: jax.Array) -> Scalar:
    """(Σ w)²/Σ w²."""
    return jnp.exp(2 * logsumexp(log_w) - logsumexp(2 * log_w))


def relative_error(log_w: jax.Array) -> Scalar:
    """The standard error of mean w over mean w; ∞ for one weight."""
    s = log_w.shape[0]
    if s < 2:
        return jnp.asarray(jnp.inf)
    w = jnp.exp(log_w - log_mean_exp(log_w))
    return jnp.sqrt(jnp.sum((w - 1) ** 2) / (s * (s - 1)))


def unbiased(log_w: jax.Array, *, n_grad: Any = 0, n_data: Any = 0) -> Evidence:
    """Independent weights with E w = Z: their mean is unbiased, its log a lower bound on average."""
    checked(log_w)
    log_z = log_mean_exp(log_w)
    how = dict(ess=effective(log_w), n_grad=n_grad, n_data=n_data, guarantee="unbiased-Z")
    return Evidence(log_z, relative_error(log_w), lower=log_z, **how)


def checked(log_w: jax.Array) -> None:
    """Refuse weights that say nothing."""
    if isinstance(log_w, jax.core.Tracer):
        return
    if bool(jnp.isnan(log_w).any()):
        raise ValueError(
            f"evidence: {int(jnp.isnan(log_w).sum())} of {log_w.size} log weights are NaN; "
            "take smaller steps or a finer ladder, and look for NaN in the log density."
        )
    if not bool(jnp.isfinite(log_w).any()):
        raise ValueError(
            "evidence: every weight is zero: no particle came to where the target has mass; "
            "take a wider base or a finer ladder."
        )
