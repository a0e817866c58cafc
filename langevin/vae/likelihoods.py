r"""Distributions p(x | decoder output) of one example: what a decoder's numbers mean.

    Bernoulli             x in [0, 1], output l:  Σ x l − log(1 + e^l), logits l
    Gaussian              x real, output (μ, log σ), or μ alone where σ is given
    Categorical           x an integer below `levels`, output (…, levels) logits
    DiscretizedLogistic   x in [0, 1] with `levels` values, output (μ, log s): the mass of a logistic in the bin of x,
                          the first and last bin reaching to ∓∞

Outputs have the shape of x, with a leading axis of 2 where they are pairs.

References
----------
Chen, Li, Zhang & Li, Bayesian Computation in Deep Learning, eq. (3.14), §3.3.1.
Salimans, Karpathy, Chen & Kingma (2017), PixelCNN++, eq. (2) (one component of the mixture).
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from langevin.core import noise
from langevin.core.record import record, static
from langevin.core.smooth import log_sigmoid, softplus
from langevin.core.types import Key, Scalar

LOG_2PI = 1.8378770664093453


@runtime_checkable
class OutputLikelihood(Protocol):
    """A distribution over one example, given what the decoder says."""

    def log_prob(self, output: Any, x: jax.Array) -> Scalar: ...
    def sample(self, key: Key, output: Any) -> jax.Array: ...
    def mean(self, output: Any) -> jax.Array: ...


@record
class Bernoulli:
    """Independent bits; x between 0 and 1 counts as a share of each."""

    def log_prob(self, output, x):
        return jnp.sum(x * output - softplus(output))

    def sample(self, key, output):
        return (jax.random.uniform(key, output.shape) < jax.nn.sigmoid(output)).astype(output.dtype)

    def mean(self, output):
        return jax.nn.sigmoid(output)


@record
class Gaussian:
    """Independent normals.

    scale: σ of every entry; None where the decoder gives (mean, log σ).
    """

    scale: Any = None

    def _split(self, output):
        if self.scale is not None:
            return output, jnp.broadcast_to(jnp.log(self.scale), output.shape)
        return output[0], output[1]

    def log_prob(self, output, x):
        mean, log_scale = self._split(output)
        return jnp.sum(-0.5 * ((x - mean) * jnp.exp(-log_scale)) ** 2 - log_scale - 0.5 * LOG_2PI)

    def sample(self, key, output):
        mean, log_scale = self._split(output)
        return mean + jnp.exp(log_scale) * noise.like(key, mean)

    def mean(self, output):
        return self._split(output)[0]


@record
class Categorical:
    """Independent classes.

    levels: how many there are.
    """

    levels: int = static(default=2)

    def log_prob(self, output, x):
        classes = x.astype(jnp.int32)[..., None]
        return jnp.sum(jnp.take_along_axis(jax.nn.log_softmax(output), classes, axis=-1))

    def sample(self, key, output):
        return jax.random.categorical(key, output).astype(output.dtype)

    def mean(self, output):
        return jax.nn.softmax(output) @ jnp.arange(self.levels, dtype=output.dtype)


@record
class DiscretizedLogistic:
    """Grey values k/(levels − 1), each the mass of a logistic in its bin.

    levels: how many values there are.
    """

    levels: int = static(default=256)

    def log_prob(self, output, x):
        mean, log_scale = output[0], output[1]
        half, inverse = 0.5 / (self.levels - 1), jnp.exp(-log_scale)
        above, below = (x + half - mean) * inverse, (x - half - mean) * inverse
        width = 2 * half * inverse
        # σ(a) − σ(b) = σ(a) σ(−b) (1 − e^{b−a})
        inside = log_sigmoid(above) + log_sigmoid(-below) + jnp.log(-jnp.expm1(-width))
        first, last = x < half, x > 1 - half
        return jnp.sum(jnp.where(first, log_sigmoid(above), jnp.where(last, log_sigmoid(-below), inside)))

    def sample(self, key, output):
        mean, log_scale = output[0], output[1]
        drawn = mean + jnp.exp(log_scale) * jax.random.logistic(key, mean.shape)
        return jnp.round(jnp.clip(drawn, 0.0, 1.0) * (self.levels - 1)) / (self.levels - 1)

    def mean(self, output):
        # E k = Σ_k P(at least k)
        step, inverse = 1 / (self.levels - 1), jnp.exp(-output[1])
        more = lambda k, total: total + step * jax.nn.sigmoid((output[0] - (k - 0.5) * step) * inverse)
        return jax.lax.fori_loop(1, self.levels, more, jnp.zeros_like(output[0]))
