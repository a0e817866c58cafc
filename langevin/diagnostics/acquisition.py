r"""Which examples to label next: what a batch of labels would say of the model, and batches that say much.

A batch b is worth the mutual information of its labels, together, and the model,

    I[y_b; θ] = H[y_b] − E_θ Σ_{i∈b} H[y_i | θ],

which is less than the sum of the I of each where labels tell the same. `bald` takes the rows of largest own I;
`batchbald` adds greedily the row whose label, given those chosen, tells most, H[y_i | y_b] − E_θ H[y_i | θ]. I is
submodular and grows with the batch, so a greedy batch has at least 1 − 1/e of what the best one has. Of classes
H[y_i | y_b] is a mean over the labels of the batch: over all of them while they are no more than `configurations`, and
then over as many draws. `logdet` is the same for regression, where y given θ is normal and the means of draws are taken
for normal: I = ½ log det(1 + C/noise) with C their covariance between rows.

References
----------
Houlsby, Huszár, Ghahramani & Lengyel (2011), Bayesian active learning for classification and preference learning.
Kirsch, van Amersfoort & Gal (2019), BatchBALD, eqs. (5), (9)-(13), alg. 1, appendix A (submodularity).
Nemhauser, Wolsey & Fisher (1978), An analysis of approximations for maximizing submodular set functions.
Holzmüller, Zaverkin, Kästner & Steinwart (2023), A framework and benchmark for deep batch active learning for
    regression, §4.2 (log determinants).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import entr

from langevin.diagnostics.disagreement import information, mutual_information
from langevin.diagnostics.families import Mixture
from langevin.diagnostics.uncertainty import check_proba, variances, weighted

TOGETHER = 4_000_000  # numbers held at once


class Batch(NamedTuple):
    """Rows chosen, in order.

    rows: (n,) their places in the pool.
    score: (n,) nats that the labels of the first 1, 2 … of them tell of the model, together.
    error: (n,) the standard error of each score; 0 where all labels were gone through.
    """

    rows: np.ndarray
    score: np.ndarray
    error: np.ndarray


def batchbald(proba, n: int, *, configurations: int = 2000, seed: int = 0, log_weight=None) -> Batch:
    """n rows of a pool of class probabilities (draw, row, class), chosen one by one for what they tell together.

    configurations: labels of the rows chosen that are gone through, or drawn where there are more.
    """
    proba, w = weighted(check_proba(proba), log_weight=log_weight)
    draws, rows, classes = proba.shape
    check_number(n, rows, "batchbald")
    random = np.random.default_rng(seed)
    noise = w @ entr(proba).sum(axis=2)
    chosen: list[int] = []
    likely, mass = np.ones((1, draws)), np.ones(1)  # of labels (configuration, draw), and their shares
    exact, taken, score, error = True, np.zeros(0, int), [], []
    for _ in range(n):
        uncertainty, spread = _conditional(likely * w, mass, proba)
        gain = uncertainty - noise
        gain[chosen] = -np.inf
        best = int(np.argmax(gain))
        score.append(float(gain[best]))
        error.append(0.0 if exact else float(spread[best] / np.sqrt(len(mass))))
        chosen.append(best)
        if exact and len(mass) * classes <= configurations:
            likely = (likely[:, None] * proba[:, best].T[None]).reshape(-1, draws)
            mass = likely @ w
            continue
        if exact:
            # as many draws of the model as configurations, evenly, and labels of each for all that is chosen
            at = (np.arange(configurations) + random.random(configurations)) / configurations
            taken = np.searchsorted(np.cumsum(w), at).clip(max=draws - 1)
            likely, mass, exact = np.ones((configurations, draws)), np.full(configurations, 1 / configurations), False
            new = chosen
        else:
            new = [best]
        for row in new:
            labels = _labels(random, proba[taken, row])
            likely = likely * proba[:, row, labels].T
            likely /= likely.max(axis=1, keepdims=True)
    return Batch(np.array(chosen), np.cumsum(score), np.cumsum(error))


def _conditional(joint: np.ndarray, mass: np.ndarray, proba: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """H[y_i | labels] of every row, a mean over configurations of weight `mass`, and its standard deviation."""
    given = joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
    block = max(TOGETHER // (len(given) * proba.shape[2]), 1)
    mean, spread = np.zeros(proba.shape[1]), np.zeros(proba.shape[1])
    for i in range(0, proba.shape[1], block):
        part = proba[:, i : i + block]
        said = (given @ part.reshape(len(part), -1)).reshape(len(given), *part.shape[1:])
        found = -np.einsum("ijk,ijk->ij", said, np.log(np.maximum(said, 1e-300)))
        mean[i : i + block] = mass @ found
        spread[i : i + block] = np.sqrt(np.maximum(mass @ found**2 - (mass @ found) ** 2, 0.0))
    return mean, spread


def _labels(random: np.random.Generator, proba: np.ndarray) -> np.ndarray:
    """A label from every row of probabilities."""
    return (np.cumsum(proba, axis=1) < random.random((len(proba), 1))).sum(axis=1).clip(max=proba.shape[1] - 1)


def joint_information(proba, log_weight=None) -> float:
    """I[y_b; θ] of all rows of (draw, row, class) together, over every one of their classes^rows labels."""
    proba, w = weighted(check_proba(proba), log_weight=log_weight)
    if proba.shape[2] ** proba.shape[1] > TOGETHER:
        raise ValueError(f"joint_information: {proba.shape[1]} rows have too many labels to go through; take fewer.")
    likely = np.ones((1, len(w)))
    for row in range(proba.shape[1]):
        likely = (likely[:, None] * proba[:, row].T[None]).reshape(-1, len(w))
    return float(entr(likely @ w).sum() - (w @ entr(proba).sum(axis=2)).sum())


def logdet(mean, std, n: int, log_weight=None) -> Batch:
    """n rows of a pool of Gaussian predictions (draw, row), chosen one by one for what they tell together."""
    noise = variances(mean, std, log_weight).aleatoric
    (mean, w) = weighted(np.asarray(mean, float), log_weight=log_weight)
    check_number(n, mean.shape[1], "logdet")
    if not (noise > 0).all():
        raise ValueError("logdet: a row has predictions without noise, of which a label tells without end; give std.")
    feature = np.sqrt(w)[:, None] * (mean - w @ mean) / np.sqrt(noise)
    chosen: list[int] = []
    score = []
    for _ in range(n):
        square = (feature**2).sum(axis=0)
        square[chosen] = -1.0
        best = int(np.argmax(square))
        q, f = float((feature[:, best] ** 2).sum()), feature[:, best].copy()
        score.append(0.5 * np.log1p(q))
        chosen.append(best)
        # (1 + f fᵀ)^−½ applied to all rows: what is left to know when this label is known
        shrink = (1 - 1 / np.sqrt(1 + q)) / q if q > 0 else 0.0
        feature -= shrink * np.outer(f, f @ feature)
    return Batch(np.array(chosen), np.cumsum(score), np.zeros(n))


def check_number(n: int, rows: int, who: str) -> None:
    """Refuse more rows than there are."""
    if not 1 <= n <= rows:
        raise ValueError(f"{who}: n is {n}, but there are {rows} rows in the pool; take from 1 to {rows}.")


def largest(score: np.ndarray, n: int, who: str) -> np.ndarray:
    """The n rows of largest score, the largest first."""
    check_number(n, len(score), who)
    return np.argsort(-np.asarray(score), kind="stable")[:n]


def bald(predicted, n: int) -> np.ndarray:
    """The n rows that tell most each by itself: of class probabilities (draw, row, class), or of a `Mixture`."""
    own = mutual_information(predicted).value if isinstance(predicted, Mixture) else information(predicted).mutual
    return largest(own, n, "bald")
