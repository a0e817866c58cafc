r"""Dropout at every draw: the inputs of a layer are left out at random, in training and in prediction.

    W_draw = diag(z / (1 − ρ)) W,   z_i ~ Bernoulli(1 − ρ) for every input i of a layer,   φ = W.

Arrays of two or more axes are weights whose last axis but one is the inputs; others stay as they are. Its entropy does
not depend on φ, so the ELBO is the mean log likelihood of thinned nets plus the mean log prior. Draws have no density.

References
----------
Gal & Ghahramani (2016), Dropout as a Bayesian approximation, eqs. (3)-(7).
"""

from __future__ import annotations

from numbers import Real

import jax
import jax.numpy as jnp

from langevin.core.record import positive, record


@record
class Dropout:
    """Bernoulli noise on the inputs of every layer.

    rate: ρ, the share left out.
    """

    rate: float = positive(default=0.05)

    def __post_init__(self):
        if isinstance(self.rate, Real) and self.rate >= 1:
            raise ValueError(f"Dropout: rate is {self.rate}; it must be above 0 and below 1.")

    def init(self, key, position):
        return position

    def sample(self, key, params):
        leaves, structure = jax.tree.flatten(params)
        keys = jax.random.split(key, len(leaves))
        return jax.tree.unflatten(structure, [self._thinned(k, u) for k, u in zip(keys, leaves, strict=True)])

    def _thinned(self, key, leaf):
        if leaf.ndim < 2:
            return leaf
        keep = jax.random.bernoulli(key, 1 - self.rate, (leaf.shape[-2], 1))
        return jnp.where(keep, leaf / (1 - self.rate), 0.0).astype(leaf.dtype)

    def entropy(self, params):
        return jnp.zeros(())

    def mean(self, params):
        return params

    def variance(self, params):
        spread = self.rate / (1 - self.rate)
        return jax.tree.map(lambda u: spread * u**2 if u.ndim > 1 else jnp.zeros_like(u), params)
