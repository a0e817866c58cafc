r"""Distributions over weights that fill only a part of the space, with few numbers for a layer.

    Product    W = A Bᵀ,  A (a, r) and B (b, r) factorised Gaussians: weights of rank r
    RankOne    W = M∘(1 + u)(1 + v)ᵀ,  u and v factorised Gaussians, one number for every input and output

They have no density over W, so the ELBO has KL between what is random and a prior of its own: of A and B N(0, s/√r),
which gives W the variance s² of the prior; of u and v N(0, s_u²), with log p(M) added, for M is a point. Arrays with
one axis have a factorised Gaussian. Of more than two axes all but the last are the rows.

References
----------
Toure & Stephenson (2025), Singular Bayesian neural networks.
Dusenberry et al. (2020), Efficient and scalable Bayesian neural nets with rank-1 factors, eqs. (3)-(5).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from langevin.core import noise, tree
from langevin.core.record import positive, record, static
from langevin.core.types import PyTree, Scalar
from langevin.vi.families.mean_field import Normal, fill_log
from langevin.vi.family import total


@runtime_checkable
class Scaled(Protocol):
    """A prior N(0, normal_scale²): a number for every array, or one for all."""

    @property
    def normal_scale(self) -> Any: ...


class Pair(NamedTuple):
    """The two factors of one matrix, or the noise of its rows and of its columns."""

    left: Any
    right: Any


class Points(NamedTuple):
    """φ of RankOne: M, and of every array Pair of factors, or its own scale."""

    weights: PyTree
    noise: list[Any]


@record
class Product:
    """W = A Bᵀ with Gaussian factors.

    rank: r.
    scale: standard deviation of weights at first, roughly.
    """

    rank: int = static(default=8)
    scale: float = positive(default=0.02)

    def init(self, key, position):
        leaves, structure = jax.tree.flatten(position)
        return Factors([self._begun(u) for u in leaves], Shapes(structure, tuple(u.shape for u in leaves)))

    def _begun(self, leaf):
        if leaf.ndim < 2:
            return Normal(leaf, fill_log(leaf, self.scale))
        matrix = leaf.reshape(-1, leaf.shape[-1])
        u, s, v = jnp.linalg.svd(matrix, full_matrices=False)
        short = max(self.rank - s.size, 0)  # a wider factor than the matrix has ranks begins with columns of zeros
        root = jnp.pad(jnp.sqrt(s), (0, short))[: self.rank]
        left, right = (jnp.pad(w, ((0, 0), (0, short)))[:, : self.rank] * root[None] for w in (u, v.T))
        return Pair(*(Normal(w, fill_log(w, self.scale / math.sqrt(self.rank))) for w in (left, right)))

    def sample(self, key, params):
        keys = jax.random.split(key, len(params.each))
        leaves = [self._drawn(k, p, s) for k, p, s in zip(keys, params.each, params.shapes.shapes, strict=True)]
        return jax.tree.unflatten(params.shapes.structure, leaves)

    def _drawn(self, key, part, shape):
        if isinstance(part, Normal):
            return drawn(key, part)
        k_left, k_right = jax.random.split(key)
        return (drawn(k_left, part.left) @ drawn(k_right, part.right).T).reshape(shape)

    def penalty(self, params, prior):
        scales = scales_of(prior, params.shapes, "Product")
        value = jnp.zeros(())
        for part, s in zip(params.each, scales, strict=True):
            if isinstance(part, Normal):
                value += divergence(part, s)
            else:
                value += sum(divergence(side, jnp.sqrt(s / math.sqrt(self.rank))) for side in part)
        return value


@record
class Shapes:
    """What a position looks like. structure: its tree; shapes: of its arrays."""

    structure: Any = static()
    shapes: tuple = static()


class Factors(NamedTuple):
    """φ of Product: of every array Pair of Normal, or Normal."""

    each: list[Any]
    shapes: Shapes


@record
class RankOne:
    """A point whose rows and columns are scaled at random.

    scale: standard deviation of u and v at first, relative, and of arrays with one axis.
    prior: s_u, standard deviation of u and v in the prior.
    """

    scale: float = positive(default=0.02)
    prior: float = positive(default=0.1)

    def init(self, key, position):
        return Points(position, [self._begun(u) for u in jax.tree.leaves(position)])

    def _begun(self, leaf):
        if leaf.ndim < 2:
            return fill_log(leaf, self.scale)
        sides = (jnp.zeros((math.prod(leaf.shape[:-1]), 1)), jnp.zeros((1, leaf.shape[-1])))
        return Pair(*(Normal(side, fill_log(side, self.scale)) for side in sides))

    def sample(self, key, params):
        leaves, structure = jax.tree.flatten(params.weights)
        keys = jax.random.split(key, len(leaves))
        parts = zip(keys, leaves, params.noise, strict=True)
        return jax.tree.unflatten(structure, [self._drawn(*part) for part in parts])

    def _drawn(self, key, leaf, part):
        if not isinstance(part, Pair):
            return drawn(key, Normal(leaf, part))
        k_left, k_right = jax.random.split(key)
        both = (1 + drawn(k_left, part.left)) * (1 + drawn(k_right, part.right))
        return leaf * both.reshape(leaf.shape)

    def penalty(self, params, prior):
        scales = scales_of(prior, params.weights, "RankOne")
        value = jnp.zeros(())
        for leaf, part, s in zip(jax.tree.leaves(params.weights), params.noise, scales, strict=True):
            if isinstance(part, Pair):
                value += sum(divergence(side, self.prior) for side in part) + 0.5 * jnp.sum((leaf / s) ** 2)
            else:
                value += divergence(Normal(leaf, part), s)
        return value


def drawn(key, params: Normal):
    """A draw of a factorised Gaussian."""
    return params.mean + jnp.exp(params.log_scale) * noise.like(key, params.mean)


def divergence(params: Normal, scale: Any) -> Scalar:
    """KL(N(μ, σ²) ‖ N(0, s²)), summed."""

    def one(m, r):
        log_ratio = r - jnp.log(scale)
        return jnp.sum(0.5 * (jnp.exp(2 * log_ratio) + (m / scale) ** 2 - 1) - log_ratio)

    return total(jax.tree.map(one, params.mean, params.log_scale))


def scales_of(prior: Any, like: Any, who: str) -> list[Any]:
    """The prior's scale of every array."""
    if not isinstance(prior, Scaled):
        raise TypeError(
            f"{who} needs a normal prior with a scale for every array, as `bnn` makes; the target's is "
            f"{type(prior).__name__}."
        )
    if isinstance(like, Shapes):
        like = jax.tree.unflatten(like.structure, list(range(len(like.shapes))))
    return jax.tree.leaves(tree.fill(prior.normal_scale, like))
