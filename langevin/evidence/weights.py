r"""From log weights to an estimate: log mean w, its standard error, and the effective sample size.

With w_i independent and E w = Z, log (1/S) Σ w_i has the standard error √(Var w / S)/Z to first order, estimated by
√(Σ (w_i/w̄ − 1)² / (S (S − 1))), and the bias −½ of its square. ESS = (Σ w)²/Σ w².

References
----------
Kahan (1965), Further remarks on reducing truncation errors (`add`).
Zhang & Stephens (2009), A new and efficient estimation method for the generalized Pareto distribution (`fit_pareto`).
Grosse, Ghahramani & Adams (2015), Sandwiching the marginal likelihood using bidirectional Monte Carlo, §2.2.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from langevin.core.types import Scalar
from langevin.evidence.types import Evidence


def log_mean_exp(log_w: jax.Array, axis: int = 0) -> jax.Array:
    return logsumexp(log_w, axis=axis) - math.log(log_w.shape[axis])


def add(total: tuple, x: Scalar) -> tuple:
    """(sum, what it lost to rounding) with x added: 10⁶ float32 terms lose no more than one."""
    value, lost = total
    x = x - lost
    new = value + x
    return new, (new - value) - x


def effective_size(log_w: jax.Array) -> Scalar:
    """(Σ w)²/Σ w²."""
    return jnp.exp(2 * logsumexp(log_w) - logsumexp(2 * log_w))


def relative_error(log_w: jax.Array) -> Scalar:
    """The standard error of mean w over mean w; ∞ for one weight."""
    s = log_w.shape[0]
    if s < 2:
        return jnp.asarray(jnp.inf)
    w = jnp.exp(log_w - log_mean_exp(log_w))
    return jnp.sqrt(jnp.sum((w - 1) ** 2) / (s * (s - 1)))


def summarize(log_w: jax.Array, *, n_grad: Any = 0, n_data: Any = 0) -> Evidence:
    """Independent weights with E w = Z: their mean is unbiased, its log a lower bound on average."""
    check_weights(log_w)
    log_z = log_mean_exp(log_w)
    how = dict(ess=effective_size(log_w), n_grad=n_grad, n_data=n_data, guarantee="unbiased-Z")
    return Evidence(log_z, relative_error(log_w), lower=log_z, **how)


def average(log_w: np.ndarray, each: int = 1) -> tuple[np.ndarray, float, float]:
    """log mean w, its standard error and the ESS, in float64; every `each` weights in a row count as one."""
    check_weights(jnp.asarray(log_w))
    w = np.exp(log_w - log_w.max())
    rows = w.reshape(-1, each).mean(1)
    error = np.inf if len(rows) < 2 else rows.std(ddof=1) / rows.mean() / np.sqrt(len(rows))
    return np.asarray(log_w.max() + np.log(w.mean())), error, w.sum() ** 2 / (w**2).sum()


def fit_pareto(log_w: np.ndarray) -> tuple[float, float]:
    """k̂ of the largest weights, as the tail of a generalised Pareto distribution, and what its mean would add to log Z.

    Of n weights the 3√n largest, at most a fifth of them; k̂ by the profile of Zhang & Stephens.
    """
    n = len(log_w)
    m = int(min(0.2 * n, 3 * math.sqrt(n)))
    if m < 5:
        return 0.0, 0.0
    w = np.exp(np.sort(log_w) - np.max(log_w))
    start, x = w[-m - 1], w[-m:] - w[-m - 1]
    if x[m // 4] <= 0:
        return 0.0, 0.0
    grid = np.arange(1, 31 + int(math.sqrt(m)))
    theta = 1 / x[-1] + (1 - np.sqrt(len(grid) / (grid - 0.5))) / (3 * x[int(m / 4 + 0.5) - 1])
    shape = np.mean(np.log1p(-theta[:, None] * x[None]), axis=1)
    score = m * (np.log(-theta / shape) - shape - 1)
    weight = np.exp(score - score.max())
    best = float(np.sum(theta * weight) / weight.sum())
    k = float(np.mean(np.log1p(-best * x)))
    if k <= 0 or best >= 0:
        return k, 0.0
    mean = start + (-k / best) / (1 - min(k, 0.95))
    more = m * max(mean - w[-m:].mean(), 0.0) / w.sum()
    return k, float(np.log1p(more))


def check_weights(log_w: jax.Array) -> None:
    """Refuse weights that are NaN, or all of them zero."""
    if isinstance(log_w, jax.core.Tracer):
        return
    if bool(jnp.isnan(log_w).any()):
        raise ValueError(
            f"evidence: {int(jnp.isnan(log_w).sum())} of {log_w.size} log weights are NaN; "
            "take smaller steps or a finer ladder, and check the log density for NaN."
        )
    if not bool(jnp.isfinite(log_w).any()):
        raise ValueError(
            "evidence: every weight is zero, for no particle reached a place where the target has mass; "
            "take a wider base or a finer ladder."
        )
