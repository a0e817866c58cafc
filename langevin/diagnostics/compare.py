r"""Which model predicts better, and is the difference more than chance?

With l_si = log p(y_i | x_i, θ_s) for draws s, the log predictive density of a row is log 1/S Σ_s e^l_si. On rows held
out it is the score. On training rows it is too good by about what the posterior learned from the row itself:

    WAIC      elpd_i = lppd_i − Var_s l_si
    PSIS-LOO  elpd_i = log p(y_i | all other rows), by importance weights e^−l_si with a smoothed tail; k > 0.7 says
              that the tail is too heavy to trust (ArviZ)

Two models on the same rows: the mean of the differences d_i, and its standard error √(Var d / n).

References
----------
Watanabe (2010), Asymptotic equivalence of Bayes cross validation and WAIC, eq. (6) (with the variance form of
    Gelman, Hwang & Vehtari 2014, eq. 12).
Vehtari, Gelman & Gabry (2017), Practical Bayesian model evaluation using LOO and WAIC, §2, eq. (24) (differences).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp


class Difference(NamedTuple):
    """mean: of a − b over rows; stderr: of that mean; better: "first", "second" or "neither" beyond two errors."""

    mean: float
    stderr: float
    better: str


def lppd(log_likelihood) -> np.ndarray:
    """Log predictive density of every row, from (draw, n)."""
    log_likelihood = np.asarray(log_likelihood, np.float64)
    return logsumexp(log_likelihood, axis=0) - np.log(len(log_likelihood))


def waic(log_likelihood) -> np.ndarray:
    """The expected log predictive density of every training row, from (draw, n)."""
    return lppd(log_likelihood) - np.var(np.asarray(log_likelihood, np.float64), axis=0, ddof=1)


def loo(log_likelihood) -> tuple[np.ndarray, np.ndarray]:
    """Leave-one-out log predictive density of every training row, from (draw, n), and Pareto's k of each."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ announces its next version
        import arviz as az

        log_likelihood = np.asarray(log_likelihood, np.float64)
        weight, k = az.psislw(-log_likelihood.T)
    return logsumexp(np.asarray(weight) + log_likelihood.T, axis=1), np.asarray(k)


def difference(first, second) -> Difference:
    """Of scores of the same rows, larger being better."""
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if first.shape != second.shape or first.ndim != 1:
        raise ValueError(f"difference was given scores of {first.shape} and {second.shape}: pass both as (n,).")
    gap = first - second
    mean, stderr = float(gap.mean()), float(gap.std(ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else float("inf")
    clear = abs(mean) > 2 * stderr
    return Difference(mean, stderr, "neither" if not clear else "first" if mean > 0 else "second")
