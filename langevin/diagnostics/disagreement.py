r"""Mutual information of an answer and the model, in nats, for every kind of likelihood.

With posterior draws s of predictive distributions p_s and their mean p̄ = E_s p_s,

    I[y; θ] = H[p̄] − E_s H[p_s] = E_s KL(p_s ‖ p̄)         how far draws are from what they say together
    reverse   E_s KL(p̄ ‖ p_s)                             how far what they say together is from draws
    pairwise  E_s E_s' KL(p_s ‖ p_s') = I + reverse        how far draws are from one another

Of classes all three are finite sums. Of a regression I is an integral over y: by Gauss-Hermite nodes of every draw for
Gaussians (log-normals have the I of their logarithms, which no change of units changes), by the sum over counts, and
where counts are spread over many values by draws of y. Of more than `max_draws` draws as many are used, evenly spaced.

References
----------
Houlsby, Huszár, Ghahramani & Lengyel (2011), Bayesian active learning for classification and preference learning,
    eq. (2).
Malinin & Gales (2021), Uncertainty estimation in autoregressive structured prediction, eqs. (5)-(8) (reverse form).
Schweighofer, Aichberger, Ielanskyi & Hochreiter (2023), Introducing an improved information-theoretic measure of
    predictive uncertainty (pairwise form).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, rel_entr

from langevin.diagnostics.families import Gaussian, LogNormal, Mixture, Poisson
from langevin.diagnostics.uncertainty import check_proba, weighted

NODES, TAIL, COUNTS = 16, 1e-9, 1024  # of the quadrature; probability left out of sums; counts summed at most
SAMPLED = 1024  # draws of y where counts are too many to be summed
TOGETHER = 4_000_000  # numbers held at once


class Information(NamedTuple):
    """Of n predictions, in nats, each (n,): pairwise = mutual + reverse.

    mutual: E KL(p_s ‖ p̄).
    reverse: E KL(p̄ ‖ p_s); infinite where a draw rules out a class that another allows.
    pairwise: E KL(p_s ‖ p_s').
    """

    mutual: np.ndarray
    reverse: np.ndarray
    pairwise: np.ndarray


class Estimate(NamedTuple):
    """value: (n,); error: of each, of the quadrature or of the draws that were used."""

    value: np.ndarray
    error: np.ndarray


def information(proba, log_weight=None) -> Information:
    """How far draws of class probabilities (draw, n, class) are apart, in three ways."""
    proba, w = weighted(check_proba(proba), log_weight=log_weight)
    mean = np.tensordot(w, proba, 1)
    mutual = np.maximum(w @ rel_entr(proba, mean).sum(axis=2), 0)
    reverse = np.maximum(w @ rel_entr(np.broadcast_to(mean, proba.shape), proba).sum(axis=2), 0)
    return Information(mutual, reverse, mutual + reverse)


def mutual_information(predicted: Mixture, *, max_draws: int = 128, seed: int = 0) -> Estimate:
    """I[y; θ] of every row of a regression's predictive distributions, with its error."""
    draws = len(predicted)
    if draws < 1 or max_draws < 1:
        raise ValueError(f"mutual_information: there are {draws} draws and max_draws is {max_draws}; 1 is needed.")
    few = np.linspace(0, draws - 1, min(draws, max_draws)).round().astype(int)
    used = predicted.take(few)
    if isinstance(used, LogNormal):
        used = used.logs
    if isinstance(used, Gaussian):
        each, error = _gaussian(used)
    elif isinstance(used, Poisson):
        each, error = _counts(used, np.random.RandomState(seed))
    else:
        raise TypeError(f"mutual_information: it knows no way for {type(predicted).__name__}.")
    if len(few) < draws:  # of draws that were left out
        error = error + each.std(axis=0, ddof=1) / np.sqrt(len(few))
    return Estimate(np.maximum(each.mean(axis=0), 0.0), error)


def _gaussian(used: Gaussian) -> tuple[np.ndarray, np.ndarray]:
    """KL(p_s ‖ p̄) of every draw (draw, n), and the change of its mean when half the nodes are left."""
    mean = np.asarray(used.mean, float)
    std = np.broadcast_to(np.asarray(used.std, float), mean.shape)
    block = max(TOGETHER // (len(mean) ** 2 * NODES), 1)
    parts = [slice(i, i + block) for i in range(0, mean.shape[1], block)]
    whole, half = (
        np.concatenate([_by_nodes(mean[:, rows], std[:, rows], nodes) for rows in parts], axis=1)
        for nodes in (NODES, NODES // 2)
    )
    return whole, np.abs(whole.mean(axis=0) - half.mean(axis=0))


def _by_nodes(mean: np.ndarray, std: np.ndarray, nodes: int) -> np.ndarray:
    z, weight = np.polynomial.hermite_e.hermegauss(nodes)
    y = mean[:, None] + z[None, :, None] * std[:, None]  # (draw, node, n)
    apart = (y[None] - mean[:, None, None]) / std[:, None, None]  # (of draw, draw, node, n)
    together = logsumexp(-0.5 * apart**2 - np.log(std)[:, None, None], axis=0) - np.log(len(mean))
    own = -0.5 * z[None, :, None] ** 2 - np.log(std)[:, None]
    return np.tensordot(weight / weight.sum(), own - together, axes=(0, 1))


def _counts(used: Poisson, random: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """KL(p_s ‖ p̄) of every draw (draw, n) by the sum over counts, or from draws where there are too many."""
    least, most = used.quantile(TAIL), used.quantile(1 - TAIL)
    many = most - least >= COUNTS
    each, error = np.zeros(used.mean.shape), np.full(used.mean.shape[1], 1e3 * TAIL)
    for i in range(int(np.max(most - least, where=~many, initial=-1)) + 1):
        k = least + i
        log_p = used.log_prob(k)
        together = logsumexp(log_p, axis=0) - np.log(len(log_p))
        with np.errstate(invalid="ignore"):
            term = np.where(np.isfinite(log_p), np.exp(log_p) * (log_p - together), 0.0)
        each += np.where((k <= most) & ~many, term, 0.0)
    if many.any():
        each[:, many], error[many] = _sampled(used.take(rows=many), random)
    return each, error


def _sampled(used: Mixture, random: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """The mean of log p_s − log p̄ over draws of y from every p_s, and its standard error."""
    rounds = max(SAMPLED // len(used), 2)
    found = np.zeros((rounds, *used.moments()[0].shape))
    for i in range(rounds):
        for s, y in enumerate(used.draw(random)):
            log_p = used.log_prob(y)
            found[i, s] = log_p[s] - logsumexp(log_p, axis=0) + np.log(len(log_p))
    spread = found.var(axis=0, ddof=1) / rounds
    return found.mean(axis=0), np.sqrt(spread.sum(axis=0)) / len(used)
