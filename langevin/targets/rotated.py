r"""Another target, turned: a dense Hessian from a simple one, its truth still known.

    x = R y,      R = G_{d−1} ⋯ G_2 G_1,      G_k the rotation of the plane (k, k+1) by `angle`,

so log p(x) = log p_y(Rᵀ x). With d independent coordinates a diagonal metric fits exactly; after 49 rotations of 20° it
does not, and every entry of the Hessian is felt. Two 50-dimensional targets that are hard for metrics made of
gradients, each with 50 latents that are exactly independent N(0, 1):

    gaussian50    N(0, S C S), C_ij = 0.8^|i−j|, S = diag of 10^0 … 10^−1.5, log-spaced, in a fixed shuffled order
    banana50      25 planes x₁ ~ N(0, 1), x₂ ~ N(b (x₁² − 1), 1), b = BEND, turned by 49 rotations of 20°

References
----------
Golub & Van Loan (2013), Matrix Computations, §5.1.8 (Givens rotations).
Haario, Saksman & Tamminen (1999), Adaptive proposal distribution for random walk Metropolis algorithm (the banana).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core.record import positive, record
from langevin.core.target import Derived, Exact, independent
from langevin.core.types import Batch, Eval, Key, PyTree, Scalar
from langevin.targets.zoo import Banana, Gaussian

BEND = 0.7  # a metric (g² + (0.3 RMS)²)^{−½} without Γ errs by a total variation above 0.25, and is stable at h = 0.005


@record
class Rotated(Exact):
    """A target on (d,), rotated by a chain of d − 1 plane rotations; R is found in float64 when it is built.

    target: the target to turn, with `mean` and, for `latent` and `exact`, those.
    angle: of each rotation, in degrees.
    rotation: R, found from it.
    """

    target: Any
    angle: float = 20.0
    rotation: Any = dataclasses.field(default=None, init=False)

    def __post_init__(self):
        if np.ndim(self.target.mean) != 1:
            raise ValueError("Rotated: the target's position must be one vector (d,).")
        rotation = chained(self.target.mean.shape[0], np.deg2rad(float(self.angle)))
        object.__setattr__(self, "rotation", jnp.asarray(rotation, jnp.result_type(float)))

    @property
    def log_z(self):
        return self.target.log_z

    @property
    def mean(self) -> jax.Array:
        return self.rotation @ self.target.mean

    @property
    def cov(self) -> jax.Array:
        return self.rotation @ self.target.cov @ self.rotation.T

    @property
    def variance(self) -> jax.Array:
        return jnp.diagonal(self.cov)

    def log_density(self, position):
        return self.target.log_density(position @ self.rotation)

    def exact(self, key: Key, n: int) -> jax.Array:
        return self.target.exact(key, n) @ self.rotation.T

    def latent(self, position) -> jax.Array:
        """The latents of the target, turned back."""
        return self.target.latent(position @ self.rotation)


@record
class Rescaled(Derived):
    """A target on (d,) in another unit of length: x = y / unit, mini-batches included.

    target: the target in its own unit.
    unit: the new unit of length; the narrowest direction of the target, say, so that step sizes mean the same.
    """

    target: Any
    unit: float = positive(default=1.0)

    @property
    def independent(self) -> bool:
        """Whether the coordinates are, as far as the target says."""
        return independent(self.target)

    @property
    def mean(self) -> jax.Array:
        return self.target.mean / self.unit

    @property
    def variance(self) -> jax.Array:
        return self.target.variance / self.unit**2

    def log_density(self, position: PyTree) -> Scalar:
        return self.target.log_density(self.unit * position) + position.size * jnp.log(self.unit)

    def exact(self, key: Key, n: int) -> jax.Array:
        return self.target.exact(key, n) / self.unit

    def latent(self, position) -> jax.Array:
        return self.target.latent(self.unit * position)

    def evaluate(self, batch: Batch, position: PyTree) -> Eval:
        here = self.target.evaluate(batch, self.unit * position)
        value = here.log_density + position.size * jnp.log(self.unit)
        return Eval(value, (self.unit * here.grad).astype(position.dtype), here.n_data)


def chained(d: int, angle: float) -> np.ndarray:
    """G_{d−1} ⋯ G_1: rotations by `angle` of the planes (0, 1), (1, 2), …"""
    rotation, c, s = np.eye(d), np.cos(angle), np.sin(angle)
    for k in range(d - 1):
        first, second = rotation[k].copy(), rotation[k + 1].copy()
        rotation[k], rotation[k + 1] = c * first - s * second, s * first + c * second
    return rotation


def gaussian50() -> Gaussian:
    """Correlated and ill-scaled: N(0, S C S) in 50 dimensions."""
    d = 50
    scale = np.random.default_rng(0).permutation(10 ** np.linspace(0.0, -1.5, d))
    apart = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    return Gaussian(np.zeros(d), np.outer(scale, scale) * 0.8**apart)


def banana50() -> Rotated:
    """Bent and turned: 25 bananas in 50 dimensions with a dense, changing Hessian."""
    return Rotated(Banana(BEND, 1.0, 50), 20.0)
