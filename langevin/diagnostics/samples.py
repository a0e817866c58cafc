r"""Two samples: are they of one law, and if not, how far apart? x (n, d) and y (m, d).

    mmd            E k(x,x') + E k(y,y') − 2 E k(x,y), unbiased, k a sum of Gaussians of ½, 1, 2 × the median distance;
                   p-value by exchanging labels
    sliced         √ mean over directions of the squared W₂ of projections, by sorting; `most` is the largest slice
    wasserstein    W₂ by the best matching of equally many points
    c2st           accuracy of a classifier on held-out parts, ½ when the laws are one; k neighbours, or a small net
    prdc           precision, recall, density, coverage by balls that reach the k-th neighbour
    memorisation   median over generated points of (distance to the nearest training point ÷ to the nearest held-out
                   one, as many of each): 1 for new points of the law, near 0 for copies

References
----------
Gretton, Borgwardt, Rasch, Schölkopf & Smola (2012), A kernel two-sample test, eq. (3), §5.
Bonneel, Rabin, Peyré & Pfister (2015), Sliced and Radon Wasserstein barycenters of measures, §3.
Lopez-Paz & Oquab (2017), Revisiting classifier two-sample tests, §3.
Naeem, Oh, Uh, Choi & Yoo (2020), Reliable fidelity and diversity metrics for generative models, eqs. (3)-(6).
Meehan, Chaudhuri & Dasgupta (2020), A non-parametric test to detect data-copying in generative models.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.optimize import linear_sum_assignment
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist, pdist


class Test(NamedTuple):
    """value: of the statistic; p: the share of exchanged labels with a value as large."""

    value: float
    p: float


class Accuracy(NamedTuple):
    """value: share of held-out points told rightly; low, high: its 95 % interval."""

    value: float
    low: float
    high: float


class PRDC(NamedTuple):
    """precision: share of y in the support of x; recall: the reverse; density, coverage: their robust forms."""

    precision: float
    recall: float
    density: float
    coverage: float


def mmd(x, y, *, permutations: int = 200, seed: int = 0) -> Test:
    """The squared maximum mean discrepancy and its permutation p-value."""
    x, y = _two(x, y, "mmd")
    both, n = np.concatenate([x, y]), len(x)
    square = cdist(both, both, "sqeuclidean")
    median = np.median(square[np.triu_indices_from(square, 1)])
    k = sum(np.exp(-square / (2 * s**2 * median)) for s in (0.5, 1.0, 2.0))
    np.fill_diagonal(k, 0.0)
    draw = np.random.default_rng(seed)
    labels = np.stack([np.arange(len(both)) < n, *(draw.permutation(len(both)) < n for _ in range(permutations))])
    a = labels.astype(float)
    within, m = a @ k, len(y)
    xx = np.sum(within * a, axis=1)
    xy = np.sum(within * (1 - a), axis=1)
    yy = k.sum() - xx - 2 * xy
    value = xx / (n * (n - 1)) + yy / (m * (m - 1)) - 2 * xy / (n * m)
    return Test(float(value[0]), float((1 + np.sum(value[1:] >= value[0])) / (1 + permutations)))


def sliced(x, y, *, directions: int = 1000, seed: int = 0) -> tuple[float, float]:
    """Sliced W₂, and the largest slice."""
    x, y = _two(x, y, "sliced")
    unit = np.random.default_rng(seed).normal(size=(x.shape[1], directions))
    unit /= np.linalg.norm(unit, axis=0)
    n = min(len(x), len(y))
    level = (np.arange(n) + 0.5) / n
    part = lambda u: np.quantile(u @ unit, level, axis=0) if len(u) != n else np.sort(u @ unit, axis=0)
    square = np.mean((part(x) - part(y)) ** 2, axis=0)
    return float(np.sqrt(square.mean())), float(np.sqrt(square.max()))


def wasserstein(x, y) -> float:
    """W₂ between as many points of each, at most 4000."""
    x, y = _two(x, y, "wasserstein")
    n = min(len(x), len(y))
    if n > 4000:
        raise ValueError(f"wasserstein: {n} points are too many to match; take 4000, or `sliced`.")
    cost = cdist(x[:n], y[:n], "sqeuclidean")
    row, column = linear_sum_assignment(cost)
    return float(np.sqrt(cost[row, column].mean()))


def c2st(
    x, y, *, judge: Literal["neighbours", "net"] = "neighbours", k: int = 15, folds: int = 5, seed: int = 0
) -> Accuracy:
    """Accuracy of a classifier in telling x from y, over folds; the interval is binomial.

    judge: the vote of k neighbours, or a net of two hidden layers.
    """
    if judge not in ("neighbours", "net"):
        raise ValueError(f"c2st: judge is {judge!r}; it must be neighbours or net.")
    x, y = _two(x, y, "c2st")
    n = min(len(x), len(y))
    both = np.concatenate([x[:n], y[:n]])
    both = (both - both.mean(0)) / np.maximum(both.std(0), 1e-12)
    label = np.repeat([0.0, 1.0], n)
    order = np.random.default_rng(seed).permutation(2 * n)
    right = 0.0
    for i, part in enumerate(np.array_split(order, folds)):
        rest = np.setdiff1d(order, part)
        if judge == "net":
            said = _net(both[rest], label[rest], both[part], seed + i)
        else:
            near = cKDTree(both[rest]).query(both[part], k=k)[1]
            # with unequal labels left in the rest, the vote is against their share and not against ½
            said = label[rest][near].mean(1) > label[rest].mean()
        right += np.sum(said == label[part])
    value = right / (2 * n)
    half = 1.96 * math.sqrt(0.25 / (2 * n))
    return Accuracy(float(value), float(value - half), float(value + half))


def _net(x, label, asked, seed: int, steps: int = 300, width: int = 64) -> np.ndarray:
    """What a net trained on rows x with labels says of the rows asked: true for 1."""
    sizes = (x.shape[1], width, width, 1)
    keys = jax.random.split(jax.random.key(seed), 3)
    weights = [
        (math.sqrt(1 / a) * jax.random.normal(k, (a, b)), jnp.zeros(b))
        for k, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]
    weights = _fitted(weights, jnp.asarray(x, jnp.float32), jnp.asarray(label, jnp.float32), steps=steps)
    share = np.log(label.mean() / (1 - label.mean()))
    return np.asarray(_odds(weights, jnp.asarray(asked, jnp.float32))) > share


def _odds(weights, x):
    for w, b in weights[:-1]:
        x = jax.nn.silu(x @ w + b[None])
    w, b = weights[-1]
    return (x @ w + b[None])[:, 0]


@partial(jax.jit, static_argnames="steps")
def _fitted(weights, x, label, *, steps: int):
    climb = optax.adamw(optax.cosine_decay_schedule(1e-2, steps), weight_decay=1e-2)
    loss = lambda weights: jnp.mean(optax.sigmoid_binary_cross_entropy(_odds(weights, x), label))

    def one(carry, _):
        weights, state = carry
        change, state = climb.update(jax.grad(loss)(weights), state, weights)
        return (optax.apply_updates(weights, change), state), None

    return jax.lax.scan(one, (weights, climb.init(weights)), length=steps)[0][0]


def prdc(x, y, *, k: int = 5) -> PRDC:
    """Precision, recall, density and coverage of y for the data x."""
    x, y = _two(x, y, "prdc")
    radius = lambda u: cKDTree(u).query(u, k=k + 1)[0][:, -1]
    apart, rx, ry = cdist(x, y), radius(x), radius(y)
    in_x, in_y = apart <= rx[:, None], apart <= ry[None, :]
    return PRDC(*map(float, (in_x.any(0).mean(), in_y.any(1).mean(), in_x.sum(0).mean() / k, in_x.any(1).mean())))


def memorisation(generated, train, held) -> float:
    """1 for new points of the law, near 0 for copies of training points."""
    generated, train = _two(generated, train, "memorisation")
    held = np.asarray(held, np.float64).reshape(len(held), -1)
    n = min(len(train), len(held))
    near = lambda u: cKDTree(u[:n]).query(generated)[0]
    return float(np.median(near(train) / np.maximum(near(held), 1e-12)))


def median_distance(x, limit: int = 2000) -> float:
    """The median distance between two points of a sample."""
    return float(np.median(pdist(np.asarray(x, np.float64)[:limit])))


def _two(x, y, where: str) -> tuple[np.ndarray, np.ndarray]:
    x, y = (np.asarray(u, np.float64).reshape(len(u), -1) for u in (x, y))
    if x.shape[1] != y.shape[1] or min(len(x), len(y)) < 8:
        raise ValueError(f"{where} was given points of {x.shape} and {y.shape}: pass (n, d) and (m, d), 8 or more.")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError(f"{where}: some points are not finite; leave diverged chains out.")
    return x, y
