r"""What maximizes the evidence of a Laplace approximation at a fixed position and curvature: prior's and noise's width.

Of a group of coordinates let e be the eigenvalues of P^{−½} G P^{−½} and r = mᵀ P m. With the prior's standard
deviations times c

    log Z(c) = −r/(2c²) − ½ Σ log(1 + c² e) + const,

and with those of the noise times s, the curvature of the net's arrays is G/s², that of log σ unchanged, and

    log Z(s) = log p(D | m, s) + log prior(m, s) + max_c Σ_groups log Z(c; e/s²).

The posterior's mode of σ takes the fit's residuals for noise, the evidence's optimum allows for the parameters that
were fitted: in linear regression it is σ² = residuals/(n − γ) with γ the number of well-determined parameters.

References
----------
MacKay (1992), Bayesian interpolation, eqs. (2.24)-(2.27) (of the prior's width, and of the noise's).
Immer, Bauer, Fortuin, Rätsch & Khan (2021), Scalable marginal likelihood estimation for model selection in deep
    learning, §3.1.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from langevin.core.types import PyTree, Scalar

SCALES = np.exp(np.linspace(-4.0, 4.0, 161)).astype(np.float32)  # of the prior that are compared
NOISES = np.exp(np.linspace(-0.3, 1.5, 181)).astype(np.float32)  # of the noise


@runtime_checkable
class HasNoise(Protocol):
    """A log likelihood with one σ among the position's arrays, where `learns_noise`."""

    @property
    def learns_noise(self) -> bool: ...
    def scale_noise(self, position: PyTree, factor: Scalar) -> PyTree: ...


class Group(NamedTuple):
    """Coordinates whose prior is scaled by one c.

    values: e.
    square: r.
    """

    values: jax.Array
    square: jax.Array


def best_scale(values: jax.Array, square: jax.Array) -> jax.Array:
    """The c of the largest log Z(c)."""
    return jnp.asarray(SCALES)[jnp.argmax(_gains(values, square))]


def _gains(values: jax.Array, square: jax.Array) -> jax.Array:
    one = lambda c2: -0.5 * square / c2 - 0.5 * jnp.sum(jnp.log1p(c2 * values))
    return lax.map(one, jnp.asarray(SCALES) ** 2, batch_size=16)


def without_noise(likelihood: HasNoise, position: PyTree) -> PyTree:
    """A tree of 0 where an array is log σ, and 1 elsewhere."""
    scaled = lambda t: likelihood.scale_noise(position, jnp.exp(t))
    mark = jax.jvp(scaled, (jnp.zeros(()),), (jnp.ones(()),))[1]
    return jax.tree.map(lambda u: 1.0 - u, mark)


def best_noise(target: Any, position: PyTree, groups: list[Group], *, adapt: bool) -> jax.Array:
    """The s of the largest log Z(s); `adapt`: every group has the c that is best with it, else 1."""

    def evidence(s):
        there = target.log_likelihood.scale_noise(position, s)
        total = jnp.sum(target.likelihood(there, target.data)) + target.prior(there)
        for group in groups:
            values = group.values / s**2
            total += jnp.max(_gains(values, group.square)) if adapt else -0.5 * jnp.sum(jnp.log1p(values))
        return total

    return jnp.asarray(NOISES)[jnp.argmax(lax.map(evidence, jnp.asarray(NOISES)))]
