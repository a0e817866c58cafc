r"""Matrix normals: the weights of a layer are correlated along rows and along columns.

    W = M + A E Bᵀ,  E_ij ~ N(0, 1):      vec W ~ N(vec M, (B Bᵀ) ⊗ (A Aᵀ)),      log |det| = b log |A| + a log |B|.

A (a, a) and B (b, b) are triangles, times the scales S of single entries: W = M + S∘(A E Bᵀ) with A = B = I is the
factorised Gaussian. Of `rank` r they are I + U Uᵀ with U (a, r), which costs O(a r). Arrays with one axis have a
factorised Gaussian; of more than two, all axes but the last are the rows.

References
----------
Louizos & Welling (2016), Structured and efficient variational deep learning with matrix Gaussian posteriors.
Ritter, Kukla, Zhang & Li (2021), Sparse uncertainty representation in deep learning with inducing weights.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from langevin.core import noise, tree
from langevin.core.record import positive, record, static
from langevin.core.types import PyTree
from langevin.vi.families.full_rank import triangle
from langevin.vi.families.mean_field import LOG_2PI, entropy_of_unit, fill_log
from langevin.vi.family import total


class Triangle(NamedTuple):
    """A lower triangle with logarithms on its diagonal."""

    factor: jax.Array

    def matrix(self):
        return triangle(self.factor)

    def apply(self, x):
        return triangle(self.factor) @ x

    def solve(self, x):
        return solve_triangular(triangle(self.factor), x, lower=True)

    def log_det(self):
        return jnp.trace(self.factor)


class Shifted(NamedTuple):
    """I + U Uᵀ; its inverse is I − U (I + Uᵀ U)⁻¹ Uᵀ."""

    factor: jax.Array

    def matrix(self):
        return jnp.eye(self.factor.shape[0]) + self.factor @ self.factor.T

    def apply(self, x):
        return x + self.factor @ (self.factor.T @ x)

    def solve(self, x):
        return x - self.factor @ jnp.linalg.solve(self._inner(), self.factor.T @ x)

    def log_det(self):
        return jnp.linalg.slogdet(self._inner())[1]

    def _inner(self):
        return jnp.eye(self.factor.shape[1]) + self.factor.T @ self.factor


class Sides(NamedTuple):
    """The factors A of rows and B of columns of one matrix."""

    rows: Triangle | Shifted
    columns: Triangle | Shifted


class Matrices(NamedTuple):
    """φ: `sides` is a list, one entry an array of the position: Sides, or nothing."""

    mean: PyTree
    log_scale: PyTree
    sides: list[Any]


@record
class MatrixNormal:
    """Gaussians with Kronecker-factored correlations within each array.

    scale: standard deviation of every coordinate at first.
    rank: r of I + U Uᵀ for rows and columns; None for full triangles.
    """

    scale: float = positive(default=0.02)
    rank: int | None = static(default=None)

    def init(self, key, position):
        leaves = jax.tree.leaves(position)
        keys = jax.random.split(key, len(leaves))
        sides = [self._sides(k, u) for k, u in zip(keys, leaves, strict=True)]
        return Matrices(position, fill_log(position, self.scale), sides)

    def _sides(self, key, leaf):
        if leaf.ndim < 2:
            return ()
        rows, columns = _shape(leaf)
        if self.rank is None:
            return Sides(Triangle(jnp.zeros((rows, rows))), Triangle(jnp.zeros((columns, columns))))
        zeros = Sides(Shifted(jnp.zeros((rows, self.rank))), Shifted(jnp.zeros((columns, self.rank))))
        return jax.tree.map(lambda u, v: 0.1 * v / math.sqrt(u.shape[0]), zeros, noise.like(key, zeros))

    def sample(self, key, params):
        unit = noise.like(key, params.mean)
        correlated = self._leafwise(params, unit, _correlate)
        return tree.add(params.mean, jax.tree.map(lambda s, e: jnp.exp(s) * e, params.log_scale, correlated))

    def log_prob(self, params, position):
        apart = jax.tree.map(lambda x, m, s: (x - m) * jnp.exp(-s), position, params.mean, params.log_scale)
        unit = self._leafwise(params, apart, _whiten)
        return -0.5 * tree.dot(unit, unit) - self._log_det(params) - 0.5 * tree.size(position) * LOG_2PI

    def entropy(self, params):
        return self._log_det(params) + entropy_of_unit(params.mean)

    def mean(self, params):
        return params.mean

    def variance(self, params):
        """Σ_k A_ik² and Σ_k B_kj² outside of the scales."""

        def one(sides, leaf):
            rows, columns = (jnp.sum(side.matrix() ** 2, axis=1) for side in sides)
            return (rows[:, None] * columns[None]).reshape(leaf.shape)

        unit = jax.tree.map(jnp.ones_like, params.mean)
        return jax.tree.map(lambda s, v: jnp.exp(2 * s) * v, params.log_scale, self._leafwise(params, unit, one))

    def _log_det(self, params):
        value = total(jax.tree.map(jnp.sum, params.log_scale))
        for sides, leaf in zip(params.sides, jax.tree.leaves(params.mean), strict=True):
            if sides:
                rows, columns = _shape(leaf)
                value += columns * sides.rows.log_det() + rows * sides.columns.log_det()
        return value

    def _leafwise(self, params, x, fn):
        leaves, structure = jax.tree.flatten(x)
        made = [fn(s, u) if s else u for s, u in zip(params.sides, leaves, strict=True)]
        return jax.tree.unflatten(structure, made)


def _shape(leaf) -> tuple[int, int]:
    return math.prod(leaf.shape[:-1]), leaf.shape[-1]


def _correlate(sides, unit):
    """A E Bᵀ."""
    return sides.columns.apply(sides.rows.apply(unit.reshape(_shape(unit))).T).T.reshape(unit.shape)


def _whiten(sides, x):
    """A⁻¹ X B⁻ᵀ."""
    return sides.columns.solve(sides.rows.solve(x.reshape(_shape(x))).T).T.reshape(x.shape)
