"""How good are the predictions, and do they know how good they are?

Regression predictions are mixtures over posterior draws, F(y) = 1/S Σ_s N(y; μ_s, σ_s²), from `mean` and
`std` of shape (draw, n); `intervals` and `pit` also take samples of y as `mean`, with std=None. With φ, Φ the
normal density and distribution function:

    NLL    −log 1/S Σ_s N(y; μ_s, σ_s²), the posterior predictive density (not the mean of log densities)
    CRPS   E|Y − y| − ½ E|Y − Y'|, Y and Y' independent from F: for a Gaussian mixture
           1/S Σ_s A(y − μ_s, σ_s²) − 1/(2S²) Σ_st A(μ_s − μ_t, σ_s² + σ_t²),
           A(m, v) = 2√v φ(m/√v) + m (2Φ(m/√v) − 1)
    PIT    F(y), uniform on [0, 1] where the predictions are calibrated

Classification predictions are probabilities (n, class), or (draw, n, class), averaged over draws first:

    NLL    −log p_y          Brier   Σ_c (p_c − 1{y = c})²
    ECE    Σ_b n_b/n |accuracy_b − confidence_b| over bins of equal width of the largest probability. Being a
           sum of absolute values it is biased upwards, by O(√(bins/n)) for a calibrated model: compare models
           at equal n and bins, and prefer NLL or Brier, which are proper scores.

References
    Gneiting, Raftery (2007). Strictly proper scoring rules, prediction, and estimation. JASA 102, 359-378.
        Eq. (21).
    Grimit, Gneiting, Berrocal, Johnson (2006). The continuous ranked probability score for circular
        variables and its application to mesoscale forecast ensemble verification. QJRMS 132, 2925-2942.
        Eq. (5).
    Ferro (2014). Fair scores for ensemble forecasts. QJRMS 140, 1917-1923.
    Kuleshov, Fenner, Ermon (2018). Accurate uncertainties for deep learning using calibrated regression.
        ICML.
    Guo, Pleiss, Sun, Weinberger (2017). On calibration of modern neural networks. ICML. Eq. (3).
"""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

LOG_2PI = np.log(2 * np.pi)


def nll_gaussian(y, mean, std, *, each: bool = False):
    """Negative log posterior predictive density of y under the mixture; its mean, or with `each` all n."""
    y, mean, std = _mixture(y, mean, std)
    log_density = -0.5 * ((y - mean) / std) ** 2 - np.log(std) - 0.5 * LOG_2PI
    return _reduced(np.log(len(mean)) - logsumexp(log_density, axis=0), each)


def rmse(y, mean) -> float:
    """Root mean squared error of the predictive mean: `mean` is (draw, n), or (n,) once averaged."""
    y, mean = np.asarray(y, float), np.asarray(mean, float)
    mean = mean.mean(axis=0) if mean.ndim == 2 else mean
    if y.shape != mean.shape:
        raise ValueError(f"rmse was given y of shape {y.shape} and a mean of {mean.shape}: pass both as (n,).")
    return float(np.sqrt(np.mean((y - mean) ** 2)))


def crps_samples(y, samples, *, fair: bool = False, each: bool = False):
    """CRPS from samples of y, (draw, n): of their empirical distribution, or an unbiased estimate for the law
    they were drawn from (`fair`, which needs 2 independent draws or more)."""
    y, samples, _ = _mixture(y, samples, None)
    m = len(samples)
    if fair and m < 2:
        raise ValueError("crps_samples was given 1 draw: the fair CRPS needs at least 2, or pass fair=False.")
    rank = np.arange(1, m + 1)[:, None]
    # Σ_ij |x_i − x_j| = 2 Σ_i (2i − m − 1) x_(i)
    spread = 2 * np.sum((2 * rank - m - 1) * np.sort(samples, axis=0), axis=0) / (m * (m - 1 if fair else m))
    return _reduced(np.abs(samples - y).mean(axis=0) - spread / 2, each)


def crps_mixture(y, mean, std, *, max_draws: int = 256, each: bool = False):
    """CRPS of the Gaussian mixture in closed form.

    The cost is draws² · n: of more than `max_draws` draws as many are used, evenly spaced.
    """
    y, mean, std = _mixture(y, mean, std)
    if len(mean) > max_draws:
        thin = np.linspace(0, len(mean) - 1, max_draws).round().astype(int)
        mean, std = mean[thin], std[thin]
    m = len(mean)
    spread = np.zeros_like(y)
    for s in range(m):  # pairs s < t, and s = t below
        spread += 2 * _absolute(mean[s] - mean[s + 1 :], np.hypot(std[s], std[s + 1 :])).sum(axis=0)
    spread += _absolute(0.0, np.sqrt(2) * std).sum(axis=0)
    return _reduced(_absolute(y - mean, std).mean(axis=0) - spread / (2 * m**2), each)


def intervals(mean, std, levels) -> tuple[np.ndarray, np.ndarray]:
    """Central intervals of the mixture of probabilities `levels`: (lower, upper), each (level, n)."""
    levels = np.atleast_1d(np.asarray(levels, float))
    if ((levels <= 0) | (levels >= 1)).any():
        raise ValueError(f"intervals was given levels {levels}: each must lie strictly between 0 and 1.")
    _, mean, std = _mixture(None, mean, std)
    tails = np.concatenate([(1 - levels) / 2, (1 + levels) / 2])
    bounds = np.quantile(mean, tails, axis=0) if std is None else quantiles(mean, std, tails)
    return bounds[: len(levels)], bounds[len(levels) :]


def quantiles(mean, std, probabilities) -> np.ndarray:
    """Quantiles of the mixture, (probability, n), by bisection: one lies between the least and the greatest of its
    components'."""
    probabilities = np.atleast_1d(np.asarray(probabilities, float))
    if ((probabilities <= 0) | (probabilities >= 1)).any():
        raise ValueError(f"quantiles was given {probabilities}: each must lie strictly between 0 and 1.")
    _, mean, std = _mixture(None, mean, std)
    out = np.empty((len(probabilities), mean.shape[1]))
    for i, p in enumerate(probabilities):
        of_each = mean + std * ndtri(p)
        low, high = of_each.min(axis=0), of_each.max(axis=0)
        for _ in range(52):  # bits of a double
            middle = (low + high) / 2
            below = ndtr((middle - mean) / std).mean(axis=0) < p
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        out[i] = (low + high) / 2
    return out


def coverage(y, lower, upper):
    """Fraction of y inside [lower, upper]: a number for bounds (n,), one for each level for (level, n)."""
    y, lower, upper = (np.asarray(a, float) for a in (y, lower, upper))
    if y.ndim != 1 or lower.shape != upper.shape or lower.shape[-1:] != y.shape:
        raise ValueError(
            f"coverage was given y of shape {y.shape} and bounds of {lower.shape} and {upper.shape}: "
            "pass y as (n,) and both bounds as (n,) or (level, n)."
        )
    return np.mean((lower <= y) & (y <= upper), axis=-1)


def pit(y, mean, std) -> np.ndarray:
    """Probability integral transform F(y) of each y, (n,); with samples, ties count half."""
    y, mean, std = _mixture(y, mean, std)
    if std is None:
        return ((mean < y).mean(axis=0) + (mean <= y).mean(axis=0)) / 2
    return ndtr((y - mean) / std).mean(axis=0)


def calibration_curve(pit, levels) -> np.ndarray:
    """Fraction of observations below their predicted quantile of each level: `levels` if calibrated."""
    return np.mean(np.asarray(pit)[:, None] <= np.asarray(levels, float), axis=0)


def nll_categorical(y, proba) -> float:
    """Mean negative log probability of the labels; inf where a label was held impossible."""
    y, proba = _labelled(y, proba)
    with np.errstate(divide="ignore"):
        return float(-np.mean(np.log(proba[np.arange(len(y)), y])))


def accuracy(y, proba) -> float:
    """Fraction of labels that got the largest probability."""
    y, proba = _labelled(y, proba)
    return float(np.mean(proba.argmax(axis=1) == y))


def brier(y, proba) -> float:
    """Mean squared distance of probabilities from labels, summed over classes: 0 to 2 (sure and wrong)."""
    y, proba = _labelled(y, proba)
    return float(np.mean(np.sum((proba - np.eye(proba.shape[1])[y]) ** 2, axis=1)))


class Reliability(NamedTuple):
    """A reliability diagram, by bins of the largest probability.

    edges: bounds of the bins, which hold their upper one (bins + 1,)
    confidence: mean largest probability in each bin; NaN where empty
    accuracy: fraction of right labels in each bin; NaN where empty
    size: examples in each bin
    """

    edges: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray
    size: np.ndarray


def reliability(y, proba, bins: int = 15) -> Reliability:
    """Confidence against accuracy in `bins` bins of equal width."""
    y, proba = _labelled(y, proba)
    confidence, right = proba.max(axis=1), proba.argmax(axis=1) == y
    place = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    size = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):  # empty bins
        mean = [np.bincount(place, weights=w, minlength=bins) / size for w in (confidence, right)]
    return Reliability(np.linspace(0, 1, bins + 1), mean[0], mean[1], size)


def ece(y, proba, bins: int = 15) -> float:
    """Expected calibration error; biased upwards (see the module)."""
    _, confidence, right, size = reliability(y, proba, bins)
    return float(np.sum(size * np.abs(right - confidence), where=size > 0) / size.sum())


def _absolute(m, std):
    """E|Y| of Y ~ N(m, std²)."""
    z = m / std
    return std * (2 * np.exp(-0.5 * z**2 - 0.5 * LOG_2PI) + z * (2 * ndtr(z) - 1))


def _reduced(scores: np.ndarray, each: bool):
    return scores if each else float(scores.mean())


def _mixture(y, mean, std):
    """Check and align y (n,), mean (draw, n) and std, which may be broadcast to (draw, n)."""
    mean = np.asarray(mean, float)
    if mean.ndim != 2 or len(mean) == 0:
        raise ValueError(f"Predictions have shape {mean.shape}: (draw, n) is needed; for one draw pass mean[None].")
    if y is not None:
        y = np.asarray(y, float)
        if y.shape != mean.shape[1:]:
            raise ValueError(f"y has shape {y.shape} but predictions are (draw, n) = {mean.shape}: pass y as (n,).")
    if std is not None:
        std = np.asarray(std, float)
        try:
            std = np.broadcast_to(std, mean.shape)
        except ValueError:
            raise ValueError(f"std has shape {std.shape} but mean {mean.shape}: pass (draw, n) or (draw, 1).") from None
        if not (std > 0).all():
            raise ValueError(f"std is {std.min()} at its least: it must be positive, so pass σ and not log σ.")
    return y, mean, std


def _labelled(y, proba) -> tuple[np.ndarray, np.ndarray]:
    """Check labels (n,) against probabilities (n, class); average draws (draw, n, class)."""
    y, proba = np.asarray(y), np.asarray(proba, float)
    proba = proba.mean(axis=0) if proba.ndim == 3 else proba
    if proba.ndim != 2 or y.shape != proba.shape[:1]:
        raise ValueError(
            f"y has shape {y.shape} and proba {proba.shape}: pass (n,) and (n, class) or (draw, n, class)."
        )
    if not np.issubdtype(y.dtype, np.integer) or y.min() < 0 or y.max() >= proba.shape[1]:
        raise ValueError(f"y must hold whole numbers from 0 to {proba.shape[1] - 1}, a column of proba each.")
    if not (proba >= 0).all() or np.abs(proba.sum(axis=1) - 1).max() > 1e-3:
        raise ValueError("Rows of proba must be probabilities that add to 1: apply softmax to logits first.")
    return y, proba
