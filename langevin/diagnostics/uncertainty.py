"""What more data would remove, and what it would not: epistemic and aleatoric uncertainty.

With posterior draws s of weight w_s (equal, or proportional to exp log_weight) the uncertainty of a
prediction is its mean within a draw (aleatoric: the noise that a known model has) plus the disagreement
between draws (epistemic):

    variances    Var[y]   = E_s[σ_s²]   + Var_s[μ_s]   by the law of total variance
    entropies    H[E_s p] = E_s[H[p_s]] + I            with I = E_s KL(p_s ‖ E_s p) the mutual information
                                                       of the label and the model, in nats

The split is of the model's own making: it is as right as the model and the posterior are.

References
    Depeweg, Hernández-Lobato, Doshi-Velez, Udluft (2018). Decomposition of uncertainty in Bayesian deep
        learning for efficient and risk-sensitive learning. ICML.
    Houlsby, Huszár, Ghahramani, Lengyel (2011). Bayesian active learning for classification and preference
        learning. arXiv:1112.5745. Eq. (2).
"""

from typing import NamedTuple

import numpy as np
from scipy.special import entr, rel_entr


class Split(NamedTuple):
    """Uncertainty of n predictions and its parts, total = aleatoric + epistemic; each (n,).

    total: of the posterior predictive
    aleatoric: what remains when the model is known
    epistemic: what learning the model would remove
    """

    total: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray


def variances(mean, std, log_weight=None) -> Split:
    """Split the predictive variance of Gaussians (draw, n); `std` may be broadcast to the shape of `mean`."""
    mean, std = np.asarray(mean, float), np.asarray(std, float)
    if mean.ndim != 2:
        raise ValueError(f"mean has shape {mean.shape}: (draw, n) is needed; keep the draws apart.")
    try:
        std = np.broadcast_to(std, mean.shape)
    except ValueError:
        raise ValueError(f"std has shape {std.shape} but mean {mean.shape}: pass (draw, n) or (draw, 1).") from None
    mean, std, w = weighted(mean, std, log_weight=log_weight)
    aleatoric, epistemic = w @ std**2, w @ (mean - w @ mean) ** 2
    return Split(aleatoric + epistemic, aleatoric, epistemic)


def entropies(proba, log_weight=None) -> Split:
    """Split the predictive entropy of class probabilities (draw, n, class)."""
    proba, w = weighted(check_proba(proba), log_weight=log_weight)
    aleatoric = w @ entr(proba).sum(axis=2)
    # as a mean of divergences, not as a difference of entropies: exactly 0 where draws agree, never below
    epistemic = np.maximum(w @ rel_entr(proba, np.tensordot(w, proba, 1)).sum(axis=2), 0)
    return Split(aleatoric + epistemic, aleatoric, epistemic)


def check_proba(proba) -> np.ndarray:
    """Class probabilities (draw, n, class) as an array; anything else is refused."""
    proba = np.asarray(proba, float)
    if proba.ndim != 3:
        raise ValueError(f"proba has shape {proba.shape}: (draw, n, class) is needed; keep the draws apart.")
    if not (proba >= 0).all() or (proba.size and np.abs(proba.sum(axis=2) - 1).max() > 1e-3):
        raise ValueError("Rows of proba must be probabilities that add to 1: apply softmax to logits first.")
    return proba


def weighted(*arrays: np.ndarray, log_weight=None) -> list[np.ndarray]:
    """The draws of positive weight, followed by their normalised weights."""
    draws = len(arrays[0])
    log_weight = np.zeros(draws) if log_weight is None else np.asarray(log_weight, float)
    if log_weight.shape != (draws,):
        raise ValueError(f"log_weight has shape {log_weight.shape} but there are {draws} draws: pass one for each.")
    kept = log_weight > -np.inf
    if not kept.any() or not np.isfinite(log_weight[kept]).all():
        raise ValueError("log_weight must be finite for some draws and +inf or NaN for none: check the sampler.")
    w = np.exp(log_weight[kept] - log_weight[kept].max())
    return [*(a[kept] for a in arrays), w / w.sum()]
