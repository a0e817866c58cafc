r"""Mixtures fitted to weighted draws: proposals with the modes, scales and tails of a distribution.

Expectation maximisation of a Gaussian mixture on draws x_i with weights w_i,

    r_ij ∝ α_j N(x_i; m_j, S_j);   n_j = Σ_i w_i r_ij;   α_j ∝ n_j,   m_j = Σ_i w_i r_ij x_i/n_j,
    S_j = (Σ_i w_i r_ij (x_i − m_j)(x_i − m_j)ᵀ + S K^{−2/d})/(n_j + 1),

with Σ w_i the effective number of draws and S the covariance of all. How many components: as many as explain best the
draws that were left out. As a proposal every component is a t with DOF degrees of freedom, at three scales, and a share
of the draws is of the base, so that weights stay small where tails are longer than a Gaussian's or a place is narrower
than was seen, and a mode not seen can still be met.

References
----------
Cappé, Douc, Guillin, Marin & Robert (2008), Adaptive importance sampling in general mixture classes.
Hesterberg (1995), Weighted average importance sampling and defensive mixture distributions.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.special import logsumexp

from langevin.core.record import record
from langevin.core.target import Exact
from langevin.core.types import Key, PyTree

DOF = 8.0
SCALES, SCALED = (1.0, 3.0, 1 / 3), (0.7, 0.15, 0.15)  # of a component, and the shares of its draws
SHARE = 0.05  # of draws that are the base's
MOST = 3000  # draws that are fitted to
STARTS = 2  # of a fit
TURNS = 15  # of expectation maximisation


class Components(NamedTuple):
    """Components: log α (K,), means (K, d), and roots of covariances (K, d, d)."""

    log_share: np.ndarray
    mean: np.ndarray
    root: np.ndarray


@record
class Mixture(Exact):
    """Components of Student's t over the raveled position, and a share of the base.

    base: a normalised distribution that can be drawn from.
    log_share: log α of the components.
    mean: (K, d). root: lower Cholesky factors (K, d, d). whiten: their inverses.
    """

    base: Any
    log_share: Any
    mean: Any
    root: Any
    whiten: Any

    def log_density(self, position: PyTree):
        flat = ravel_pytree(position)[0]
        inside = math.log(1 - SHARE) + logsumexp(self.log_share + _log_t(flat, self.mean, self.whiten))
        return jnp.logaddexp(inside, math.log(SHARE) + self.base.log_density(position))

    def exact(self, key: Key, n: int) -> PyTree:
        """n draws, of which a share of SHARE, rounded up, is the base's."""
        k_base, k_which, k_scale, k_normal, k_gamma = jax.random.split(key, 5)
        some = math.ceil(SHARE * n)
        wide = self.base.exact(k_base, some)
        if some == n:
            return wide
        which = jax.random.categorical(k_which, self.log_share, shape=(n - some,))
        z = jax.random.normal(k_normal, (n - some, self.mean.shape[1]), self.mean.dtype)
        longer = jnp.sqrt(0.5 * DOF / jax.random.gamma(k_gamma, 0.5 * DOF, (n - some,), z.dtype))
        scale, share = (jnp.asarray(u, z.dtype) for u in (SCALES, SCALED))
        longer = longer * scale[jax.random.categorical(k_scale, jnp.log(share), shape=(n - some,))]
        flat = self.mean[which] + longer[:, None] * jnp.einsum("nij,nj->ni", self.root[which], z)
        unravel = ravel_pytree(jax.tree.map(lambda u: u[0], wide))[1]
        return jax.tree.map(lambda u, v: jnp.concatenate([u, v]), wide, jax.vmap(unravel)(flat))


def _log_t(x, mean, whiten):
    """log t of every component at x, each at all of its scales."""
    d = x.shape[0]
    z = jnp.einsum("kij,j->ki", whiten, x) - jnp.einsum("kij,kj->ki", whiten, mean)
    log_det = -jnp.sum(jnp.log(jnp.diagonal(whiten, axis1=1, axis2=2)), axis=1)
    constant = math.lgamma(0.5 * (DOF + d)) - math.lgamma(0.5 * DOF) - 0.5 * d * math.log(DOF * math.pi)
    scale = jnp.asarray(SCALES, x.dtype)[:, None]
    far = jnp.log1p(jnp.sum(z**2, axis=1)[None] / (DOF * scale**2))
    log_share = jnp.log(jnp.asarray(SCALED, x.dtype))[:, None] - d * jnp.log(scale)
    return constant - log_det + logsumexp(log_share - 0.5 * (DOF + d) * far, axis=0)


def fit(x: np.ndarray, log_w: np.ndarray, sizes: Any, seed: int) -> Components:
    """The mixture of one of `sizes` that explains best the weighted draws (n, d) that it was not fitted to."""
    order = np.random.default_rng(seed)
    weight = np.exp(log_w - log_w.max())
    weight /= weight.sum()
    count = 1 / np.sum(weight**2)
    one = order.random(len(x)) < 0.7
    kept, left = (_choose(x[part], weight[part], order) for part in (one, ~one))
    best, least = _em(kept, 0.7 * count, 1, order), np.inf
    for K in sorted(sizes):
        if K > 1 and count < 4 * K * (x.shape[1] + 1):
            break
        for _ in range(STARTS):
            found = _em(kept, 0.7 * count, K, order)
            loss = -np.mean(_log_normals(left, found)[1])
            best, least = (found, loss) if loss < least else (best, least)
    return best


def _choose(x, weight, order) -> np.ndarray:
    """At most MOST draws, in proportion to their weights."""
    n = min(len(x), MOST)
    at = (order.random() + np.arange(n)) / n
    return x[np.searchsorted(np.cumsum(weight) / weight.sum(), at).clip(max=len(x) - 1)]


def _em(x, count: float, K: int, order) -> Components:
    """K components; the draws count as `count` independent ones."""
    (n, d), mean = x.shape, x.mean(0)
    overall = np.cov(x.T).reshape(d, d)
    overall += 1e-9 * np.diag(np.diag(overall) + 1e-300)
    floor = overall * K ** (-2 / d)
    if K == 1:
        return Components(np.zeros(1), mean[None], np.linalg.cholesky(overall)[None])
    centre = _spread(x @ np.linalg.inv(np.linalg.cholesky(overall)).T, K, order)
    found = Components(np.full(K, -math.log(K)), x[centre], np.broadcast_to(np.linalg.cholesky(floor), (K, d, d)))
    square = (x[:, :, None] * x[:, None, :]).reshape(n, d * d)
    for _ in range(TURNS):
        log_r, total = _log_normals(x, found)
        r = (count / n) * np.exp(log_r - total[:, None])
        size = r.sum(0) + 1e-12
        mean = (r.T @ x) / size[:, None]
        spread = (r.T @ square).reshape(K, d, d) - size[:, None, None] * mean[:, :, None] * mean[:, None, :]
        spread = (spread + floor[None]) / (size[:, None, None] + 1)
        found = Components(np.log(size / size.sum()), mean, np.linalg.cholesky(spread + 1e-7 * floor[None]))
    return found


def _log_normals(x, found: Components):
    """log α_j N(x_i; m_j, S_j), and its log sum over j."""
    d = x.shape[1]
    inverse = np.linalg.inv(found.root)
    z = (x @ inverse.reshape(-1, d).T).reshape(len(x), -1, d) - np.einsum("kij,kj->ki", inverse, found.mean)[None]
    log_det = np.log(np.diagonal(found.root, axis1=1, axis2=2)).sum(1)
    each = found.log_share - log_det - 0.5 * np.sum(z**2, axis=2) - 0.5 * d * math.log(2 * math.pi)
    most = each.max(1)
    return each, most + np.log(np.exp(each - most[:, None]).sum(1))


def _spread(x, K: int, order) -> np.ndarray:
    """K draws far from one another (k-means++)."""
    chosen = [order.integers(len(x))]
    nearest = np.full(len(x), np.inf)
    for _ in range(K - 1):
        nearest = np.minimum(nearest, np.sum((x - x[chosen[-1]]) ** 2, axis=1))
        chosen.append(order.choice(len(x), p=nearest / nearest.sum()))
    return np.array(chosen)
