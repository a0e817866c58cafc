r"""Deep latent variable models: p_θ(x, z) = N(z; 0, I) p(x | f_θ(z)), f_θ a network.

For one example the posterior over z is a target like any other, `model.posterior(θ, x)`: unnormalised density
p_θ(x, z), evidence p_θ(x). So every kernel samples z, and every method of evidence estimates log p_θ(x). The encoder
q_φ(z | x) = N(μ_φ(x), diag σ_φ(x)²) gives a `Normal` for every example, the base from which they begin.

An example is an array x, or a pair (x, c) where decoder and encoder also read a condition c: f_θ(z, c), q_φ(z | x, c).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from langevin.core import noise
from langevin.core.record import record, static
from langevin.core.target import Exact
from langevin.core.types import Key, PyTree, Scalar
from langevin.evidence.base import LOG_2PI, Normal


@record
class LatentModel:
    """The generative half.

    decoder: the network without its arrays, called as net(z) or net(z, c).
    likelihood: what its output means.
    latent: how many numbers z has.
    """

    decoder: Any = static()
    likelihood: Any
    latent: int = static()

    def __post_init__(self):
        if self.latent < 1:
            raise ValueError(f"LatentModel: latent is {self.latent}; z needs 1 number or more.")

    def decode(self, theta: PyTree, z: jax.Array, *condition) -> Any:
        """What the network says of one z."""
        return eqx.combine(theta, self.decoder)(z, *condition)

    def log_prior(self, z: jax.Array) -> Scalar:
        return -0.5 * jnp.sum(z**2) - 0.5 * self.latent * LOG_2PI

    def log_likelihood(self, theta: PyTree, z: jax.Array, example: Any) -> Scalar:
        """log p_θ(x | z) of one example."""
        x, *condition = parts(example)
        return self.likelihood.log_prob(self.decode(theta, z, *condition), x)

    def posterior(self, theta: PyTree, example: Any) -> LatentPosterior:
        """The posterior over z of one example, as a target."""
        return LatentPosterior(self, theta, example)

    def prior(self) -> Normal:
        """N(0, I), as a base."""
        return Normal(jnp.zeros(self.latent))

    def generate(self, key: Key, theta: PyTree, n: int, *condition, mean: bool = False) -> jax.Array:
        """n examples, or their means; conditions have a leading axis of n."""
        k_z, k_x = jax.random.split(key)
        z = self.prior().exact(k_z, n)
        output = jax.vmap(lambda z, *c: self.decode(theta, z, *c))(z, *condition)
        if mean:
            return jax.vmap(self.likelihood.mean)(output)
        return jax.vmap(self.likelihood.sample)(jax.random.split(k_x, n), output)


@record
class LatentPosterior(Exact):
    """The posterior over z of one example, unnormalised: its evidence is p_θ(x).

    model: the generative model.
    theta: the decoder's weights.
    example: x, or (x, c).
    """

    model: LatentModel
    theta: PyTree
    example: Any

    def prior(self, z):
        return self.model.log_prior(z)

    def log_density(self, z):
        return self.model.log_prior(z) + self.model.log_likelihood(self.theta, z, self.example)


@record
class Encoder:
    """q_φ(z | x), amortized: a network gives mean and log standard deviation of every example.

    program: the network without its arrays, called as net(x) or net(x, c); it gives (2, latent).
    """

    program: Any = static()

    def __call__(self, phi: PyTree, example: Any) -> Normal:
        """The approximation of one example's posterior."""
        mean, log_scale = eqx.combine(phi, self.program)(*parts(example))
        return Normal(mean, jnp.exp(log_scale))


class Posteriors(NamedTuple):
    """The posteriors of a mini-batch of examples, and their approximations.

    model: the generative model.
    theta: the decoder's weights.
    examples: (row, …).
    q: a Normal whose mean and scale are (row, latent).
    """

    model: LatentModel
    theta: PyTree
    examples: Any
    q: Normal

    @property
    def rows(self) -> int:
        return self.q.mean.shape[0]

    def draw(self, key: Key, n: int) -> jax.Array:
        """z ~ q, (row, draw, latent), differentiable in q."""
        e = noise.normal(key, (self.rows, n, self.model.latent)).astype(self.q.mean.dtype)
        return self.q.mean[:, None] + self.q.scale[:, None] * e

    def log_likelihood(self, z: jax.Array) -> jax.Array:
        """log p_θ(x | z), (row, draw)."""
        one = lambda example, z: self.model.log_likelihood(self.theta, z, example)
        return jax.vmap(jax.vmap(one, (None, 0)))(self.examples, z)

    def log_joint(self, z: jax.Array) -> jax.Array:
        """log p_θ(x, z), (row, draw)."""
        return self.log_likelihood(z) + _normal(z, 0.0, 1.0)

    def log_q(self, z: jax.Array) -> jax.Array:
        """log q(z | x), (row, draw)."""
        return _normal(z, self.q.mean[:, None], self.q.scale[:, None])

    def log_weight(self, z: jax.Array) -> jax.Array:
        return self.log_joint(z) - self.log_q(z)

    def divergence(self) -> jax.Array:
        """KL(q ‖ prior), (row,)."""
        mean, scale = self.q.mean, self.q.scale
        return jnp.sum(0.5 * (mean**2 + scale**2 - 1) - jnp.log(scale), axis=-1)

    def each(self, fn: Callable[..., Any], *args: Any) -> Any:
        """fn(target, base, *args) of every example; `args` have a leading axis of rows."""
        one = lambda example, q, *args: fn(self.model.posterior(self.theta, example), q, *args)
        return jax.vmap(one)(self.examples, self.q, *args)

    def held(self, *, theta: bool = False, q: bool = False) -> Posteriors:
        """The same with the gradient stopped in the decoder's weights, in q, or in both."""
        stop = jax.lax.stop_gradient
        return self._replace(theta=stop(self.theta) if theta else self.theta, q=stop(self.q) if q else self.q)


def _normal(z, mean, scale):
    """log N of the last axis."""
    u = (z - mean) / scale
    return jnp.sum(-0.5 * u**2 - jnp.log(jnp.broadcast_to(scale, z.shape)) - 0.5 * LOG_2PI, axis=-1)


def parts(example: Any) -> tuple:
    """An example as (x,) or (x, c)."""
    return tuple(example) if isinstance(example, (tuple, list)) else (example,)


def rows_of(data: Any) -> int:
    return jax.tree.leaves(data)[0].shape[0]
