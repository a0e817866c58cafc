r"""A Kronecker product per leaf, one factor for every axis: the metric of Shampoo.

For a leaf of k axes with gradient tensor M and its unfoldings M_i,

    H_i = β H_i + (1 − β) M_i M_iᵀ,      D = ⊗_i (H_i + εI)^{−1/(2k)},      √D = ⊗_i (H_i + εI)^{−1/(4k)}.

Vectors have one factor (the full-matrix metric), numbers one number; an axis longer than `largest` has the
identity. Roots are taken every `interval` steps; more than 1 makes the metric stale, which no correction sees. The
released code of SGRLD starts H at εI, which its moving average forgets; here ε stays.

References
----------
Gupta, Koren & Singer (2018), Shampoo: preconditioned stochastic tensor optimization, alg. 2.
Yu, Hartmann, Williams & Klami (2023), Scalable stochastic gradient Riemannian Langevin dynamics in non-diagonal
    metrics, §3.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from langevin.core.record import positive, record, replace, static


@record
class Factors:
    """What stands for a leaf of the position. parts: one entry an axis, () for the identity."""

    parts: tuple


@record
class Kronecker:
    """D a Kronecker product of powers of the gradient's second moments, axis by axis.

    epsilon: ε.
    decay: β of the moving average; 0 for the present gradient alone.
    interval: steps between roots.
    largest: an axis longer than this has the identity.
    """

    epsilon: float = positive(default=1e-2)
    decay: float = static(default=0.0)
    interval: int = static(default=1)
    largest: int = static(default=512)
    diagonal = False

    @property
    def kind(self):
        return "moving" if self.decay or self.interval > 1 else "gradient"

    def instant(self):
        return replace(self, decay=0.0, interval=1)

    # memory: (H of every axis of every leaf, roots), empty where they need not be carried

    def start(self, position):
        second = self._second(jax.tree.map(jnp.zeros_like, position)) if self.decay else ()
        if self.interval == 1:
            return second, ()
        return second, self._roots(self._second(jax.tree.map(jnp.zeros_like, position)))

    def update(self, memory, grad, count):
        second, roots = memory
        new = self._second(grad)
        if self.decay:
            new = jax.tree.map(lambda h, m: (self.decay * h + (1 - self.decay) * m).astype(h.dtype), second, new)
        if self.interval > 1:
            roots = jax.lax.cond(count % self.interval == 0, self._roots, lambda _: roots, new)
        return (new if self.decay else ()), roots

    def geometry(self, memory, grad, position):
        second, roots = memory
        if self.interval > 1:
            return roots
        return self._roots(second if self.decay else self._second(grad))

    def apply(self, geometry, v):
        return self.root(geometry, self.root(geometry, v))

    def root(self, geometry, v):
        return self._each(geometry, v, 0)

    def unroot(self, geometry, v):
        return self._each(geometry, v, 1)

    def tilt(self, geometry):
        leaves = jax.tree.leaves(geometry, is_leaf=_is_factors)
        return 2.0 * sum((jnp.sum(jnp.log(f[0])) for factors in leaves for f in factors.parts if f), jnp.zeros(()))

    def _second(self, grad):
        """M_i M_iᵀ of every axis; a number for an axis of one."""

        def leaf(g):
            if g.ndim == 0:
                return Factors((g**2,))
            return Factors(tuple(_gram(g, i) if n <= self.largest else () for i, n in enumerate(g.shape)))

        return jax.tree.map(leaf, grad)

    def _roots(self, second):
        def leaf(factors):
            power = 1.0 / (4 * len(factors.parts))
            return Factors(tuple(() if isinstance(h, tuple) else self._pair(h, power) for h in factors.parts))

        return jax.tree.map(leaf, second, is_leaf=_is_factors)

    def _pair(self, h, power):
        if h.ndim == 0:
            return (h + self.epsilon) ** -power, (h + self.epsilon) ** power
        whole = h + self.epsilon * jnp.eye(h.shape[0], dtype=h.dtype)
        return powers(whole, power)

    def _each(self, geometry, v, which):
        def leaf(u, factors):
            for axis, pair in enumerate(factors.parts):
                if not pair:
                    continue
                root = pair[which]
                if root.ndim == 0:
                    u = (root * u).astype(u.dtype)
                else:
                    u = jnp.moveaxis(jnp.tensordot(root.astype(u.dtype), u, axes=(1, axis)), 0, axis)
            return u

        return jax.tree.map(leaf, v, geometry)

    words = "D = ⊗ (M Mᵀ + ε)^(−1/2k)"


def _is_factors(x):
    return isinstance(x, Factors)


def _gram(g, axis):
    if g.shape[axis] == 1:
        return jnp.sum(g**2)
    other = tuple(i for i in range(g.ndim) if i != axis)
    return jnp.tensordot(g, g, axes=(other, other))


def powers(h, power: float):
    """(H^−power, H^power) of a symmetric positive matrix, differentiable also where eigenvalues coincide."""
    return _function(h, -power), _function(h, power)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _function(h, power):
    w, u = jnp.linalg.eigh(h)
    return (u * jnp.maximum(w, jnp.finfo(h.dtype).tiny)[None] ** power) @ u.T


@_function.defjvp
def _function_jvp(power, primals, tangents):
    """Daleckii & Krein: dF = U (K ∘ Uᵀ dH U) Uᵀ, K the divided differences of the power."""
    (h,), (dh,) = primals, tangents
    w, u = jnp.linalg.eigh(h)
    w = jnp.maximum(w, jnp.finfo(h.dtype).tiny)
    f = w**power
    gap, mean = w[:, None] - w[None], 0.5 * (w[:, None] + w[None])
    near = jnp.abs(gap) < 1e-3 * mean
    kernel = jnp.where(near, power * mean ** (power - 1), (f[:, None] - f[None]) / jnp.where(near, 1.0, gap))
    return (u * f[None]) @ u.T, u @ (kernel * (u.T @ dh @ u)) @ u.T
