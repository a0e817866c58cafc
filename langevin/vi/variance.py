r"""The variance of stochastic gradients of an objective at a fit, by what makes it: the mini-batch, or the draws of q.

With g(b, ε) the gradient on a batch b with noise ε,

    Var g = Var_b E[g | b] + E_b Var[g | b]      (data + draws),

estimated without bias from n batches with two draws of ε each, coordinate by coordinate, and summed. A larger batch
lowers the first part, and the second where every example has its own noise (`LocalELBO`, `FlipoutELBO`); more draws and
better estimators lower the second. `signal` is |E g| over the root of the variance of all coordinates.

References
----------
Mohamed, Rosca, Figurnov & Mnih (2020), Monte Carlo gradient estimation in machine learning, §3.2, §8.
Kingma, Salimans & Welling (2015), Variational dropout and the local reparameterization trick, eqs. (3)-(5).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import noise, tree
from langevin.core.target import HasBatches, need
from langevin.core.types import Key
from langevin.vi.family import Approximation, Family, check_family
from langevin.vi.objectives.elbo import ELBO
from langevin.vi.variational import Variational

DEFAULT = ELBO()


class GradientVariance(NamedTuple):
    """total: of all coordinates of φ; data, draws: its parts; signal: |E g|/√total; parts: of every array of φ."""

    total: float
    data: float
    draws: float
    signal: float
    parts: dict[str, GradientVariance]


def gradient_variance(
    key: Key, target: Any, q: Approximation | tuple[Any, Any], objective: Any = DEFAULT, *, n: int = 200
) -> GradientVariance:
    """How noisy gradients of an objective are at q, an approximation or (family, φ).

    n: mini-batches, each evaluated with two draws of the noise.
    """
    need(target, HasBatches, "vi.gradient_variance")
    family, params = (q.family, q.params) if isinstance(q, Approximation) else q
    check_family(family, Family, "vi.gradient_variance")
    if n < 2:
        raise ValueError(f"vi.gradient_variance: n is {n}; a variance needs 2 batches or more.")
    found = _moments(key, Variational(target, family, objective), params, n)
    mean, between, within = ([np.asarray(u, np.float64) for u in jax.tree.leaves(part)] for part in found)
    parts = {}
    for name, m, b, w in zip(tree.names(params), mean, between, within, strict=True):
        data = float((b - 0.5 * w).sum()) if target.stochastic else 0.0
        parts[name] = _of(float((m**2 - b / n).sum()), data, float(w.sum()), {})
    square = sum(p.signal**2 * p.total for p in parts.values())
    return _of(square, sum(p.data for p in parts.values()), sum(p.draws for p in parts.values()), parts)


def compare_gradients(
    key: Key, target: Any, q: Approximation | tuple[Any, Any], objectives: Mapping[str, Any], *, n: int = 200
) -> Any:
    """A table (pandas) of gradient variances, one row for each objective by its name, on the same random keys.

    The sums over the arrays of each field of φ, such as `mean` and `log_scale`, have columns of their own. Objectives
    differ in their optimum and in the scale of their gradients, so compare variances of estimators of one of them, and
    `signal` otherwise.
    """
    import pandas as pd

    rows = {}
    for name, objective in objectives.items():
        found = gradient_variance(jax.random.clone(key), target, q, objective, n=n)
        fields: dict[str, float] = {}
        for part, value in found.parts.items():
            field = part.split(".")[0]
            fields[field] = fields.get(field, 0.0) + value.total
        rows[name] = dict(found._asdict(), **fields)
        del rows[name]["parts"]
    return pd.DataFrame.from_dict(rows, orient="index")


def _of(square: float, data: float, draws: float, parts: dict[str, GradientVariance]) -> GradientVariance:
    total = data + draws
    signal = math.sqrt(max(square, 0.0) / total) if total > 0 else math.inf
    return GradientVariance(total, data, draws, signal, parts)


@partial(jax.jit, static_argnames="n")
def _moments(key, aim, params, n):
    """Mean gradient, variance of the batches' means, and mean variance inside of them, by running sums."""
    words, wrap = noise.words(jax.random.split(key, n))

    def one(carry, x):
        mean, square, inside, count = carry
        k_start, k_rows, k_a, k_b = jax.random.split(wrap(x), 4)
        rows, _ = aim.target.draw(k_rows, aim.target.start(k_start))
        a, b = (aim.evaluate((k, rows), params).grad for k in (k_a, k_b))
        apart = jax.tree.map(lambda u, v, m: 0.5 * (u + v) - m, a, b, mean)
        new = jax.tree.map(lambda m, d: m + d / (count + 1), mean, apart)
        square = jax.tree.map(lambda s, d: s + d**2 * count / (count + 1), square, apart)
        inside = jax.tree.map(lambda w, u, v: w + 0.5 * (u - v) ** 2, inside, a, b)
        return (new, square, inside, count + 1), None

    zero = tree.zeros_like(params)
    (mean, square, inside, _), _ = jax.lax.scan(one, (zero, zero, zero, jnp.zeros(())), words)
    return mean, tree.scale(1 / (n - 1), square), tree.scale(1 / n, inside)
