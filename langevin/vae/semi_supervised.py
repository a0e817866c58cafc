r"""Semi-supervised learning with a latent variable model (M2): classes of some examples, and none of most.

    p(x, y, z) = p(y) N(z; 0, I) p_θ(x | z, y),     q(y, z | x) = q_φ(y | x) q_φ(z | x, y),   p(y) uniform;

with L(x, y) a bound of log p_θ(x, y), decoder and encoder conditioned on the one-hot class,

    labelled      L(x, y) + α log q_φ(y | x)
    unlabelled    Σ_y q_φ(y | x) L(x, y) + H[q_φ(y | x)]

The bound is any of `lv.vi` or `lv.vae`. A label of −1 says that there is none. A position has "classifier" beside
"decoder", "encoder" and "objective".

References
----------
Kingma, Rezende, Mohamed & Welling (2014), Semi-supervised learning with deep generative models, eqs. (6)-(9).
"""

from __future__ import annotations

import math
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from langevin.core.record import nonnegative, record, static
from langevin.core.types import PyTree
from langevin.targets.stream import Randomized
from langevin.vae.autoencoder import bound_of, check_examples, posteriors_of
from langevin.vae.model import Encoder, LatentModel


@record
class SemiSupervised(Randomized):
    """The mean bound over labelled and unlabelled examples.

    model: the generative half, conditioned on `classes` numbers.
    encoder: conditioned likewise.
    classifier: the network without its arrays that gives the logits of q(y | x).
    objective: the bound.
    data: (x, label), label −1 where there is none.
    classes: how many there are.
    weight: α, of the classifier's log score on labelled examples.
    batch: examples in a mini-batch.
    order: "epoch" or "replacement".
    """

    model: LatentModel
    encoder: Encoder
    classifier: Any = static()
    objective: Any
    data: Any
    classes: int = static(default=10)
    weight: float = nonnegative(default=10.0)
    batch: int | None = static(default=100)
    order: Literal["replacement", "epoch"] = static(default="epoch")

    def __post_init__(self):
        check_examples("SemiSupervised", self.data[0])
        Randomized.__post_init__(self)
        label = self.data[1]
        if not isinstance(label, jax.core.Tracer):
            seen = np.asarray(label)
            if seen.min() < -1 or seen.max() >= self.classes:
                raise ValueError(
                    f"SemiSupervised: labels go from {seen.min()} to {seen.max()}; they must be 0 to "
                    f"{self.classes - 1}, or -1 for none."
                )
            if not (seen >= 0).any():
                raise ValueError("SemiSupervised: no example has a label; train an Autoencoder, or give some labels.")
        bound_of(self.objective)

    def init(self, key) -> PyTree:
        return bound_of(self.objective).init(key, self.model)

    def value(self, key, rows, position):
        return jnp.mean(self.values(key, rows, position))

    def values(self, key, rows, position):
        """The bound of every example."""
        x, label = rows
        score = jax.nn.log_softmax(self.logits(position, x))
        bound, prior = bound_of(self.objective), -math.log(self.classes)

        def of_class(key, y):
            given = jnp.broadcast_to(jax.nn.one_hot(y, self.classes), (len(x), self.classes))
            found = posteriors_of(self.model, self.encoder, position, (x, given))
            return bound.values(key, found, position["objective"]) + prior

        each = jax.vmap(of_class)(jax.random.split(key, self.classes), jnp.arange(self.classes)).T
        known = jnp.clip(label, 0).astype(jnp.int32)[:, None]
        pick = lambda u: jnp.take_along_axis(u, known, axis=1)[:, 0]
        labelled = pick(each) + self.weight * pick(score)
        unlabelled = jnp.sum(jnp.exp(score) * (each - score), axis=1)
        return jnp.where(label >= 0, labelled, unlabelled)

    def logits(self, position, x):
        """Of q(y | x), (n, classes)."""
        return jax.vmap(eqx.combine(position["classifier"], self.classifier))(x)
