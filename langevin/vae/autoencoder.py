r"""Training a latent variable model as a target: the mean of a bound of log p_θ(x) over examples.

    log density(θ, φ, ψ) = 1/N Σ_i L(x_i; θ, φ, ψ),     estimate: a mini-batch, and fresh draws of every example in it.

A position is {"decoder": θ, "encoder": φ, "objective": ψ}, ψ what the objective itself learns (step sizes, reverse
networks; often nothing). Training is a run of `Optimize` on it, so stores, callbacks, several runs side by side and
devices come with the loop. The objective is one of `lv.vi` (ELBO, Renyi, IWAE, with their estimators) or one of
`langevin.vae.objectives`.

References
----------
Kingma & Welling (2014), Auto-encoding variational Bayes, algorithm 1.
Chen, Li, Zhang & Li, Bayesian Computation in Deep Learning, eqs. (3.15)-(3.16), algorithm 4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core.record import record, static
from langevin.core.types import Key, PyTree
from langevin.targets.stream import Randomized
from langevin.vae.model import Encoder, LatentModel, Posteriors, parts
from langevin.vae.objectives.weighted import Weighted
from langevin.vi.objectives.base import Objective


@runtime_checkable
class LatentObjective(Protocol):
    """What is maximised: one number for every example, whose gradient is the one wanted.

    `init` gives ψ, what the objective learns beside decoder and encoder; () for nothing.
    """

    def init(self, key: Key, model: LatentModel) -> PyTree: ...
    def values(self, key: Key, posteriors: Posteriors, params: PyTree) -> jax.Array: ...


@record
class Autoencoder(Randomized):
    """The mean bound of log p(x), over mini-batches.

    model: the generative half.
    encoder: the amortized approximation.
    objective: what is maximised.
    data: x (n, …), or (x, condition), both with a leading axis of examples.
    batch: examples in a mini-batch; None for all of them.
    order: "epoch" or "replacement".
    corrupt: (key, x) → x, applied to every mini-batch, such as `binarize`; a module-level function.
    """

    model: LatentModel
    encoder: Encoder
    objective: Any
    data: Any
    batch: int | None = static(default=100)
    order: Literal["replacement", "epoch"] = static(default="epoch")
    corrupt: Callable | None = static(default=None)

    def __post_init__(self):
        Randomized.__post_init__(self)
        check_examples("Autoencoder", self.data)
        bound_of(self.objective)

    def init(self, key: Key) -> PyTree:
        """What the objective learns, to begin with: the part "objective" of a position."""
        return bound_of(self.objective).init(key, self.model)

    def value(self, key, rows, position):
        return jnp.mean(self.values(key, rows, position))

    def values(self, key: Key, rows: Any, position: PyTree) -> jax.Array:
        """The bound of every example."""
        k_corrupt, k_bound = jax.random.split(key)
        if self.corrupt is not None:
            x, *condition = parts(rows)
            x = self.corrupt(k_corrupt, x)
            rows = (x, *condition) if condition else x
        found = posteriors_of(self.model, self.encoder, position, rows)
        return bound_of(self.objective).values(k_bound, found, position["objective"])


def posteriors_of(model: LatentModel, encoder: Encoder, position: PyTree, rows: Any) -> Posteriors:
    """The posteriors of some examples, and what the encoder says of them."""
    q = jax.vmap(encoder, (None, 0))(position["encoder"], rows)
    return Posteriors(model, position["decoder"], rows, q)


def bound_of(objective: Any) -> LatentObjective:
    """An objective of `lv.vi` as one of latent variables; those stay as they are."""
    if isinstance(objective, Objective):
        return Weighted(objective)
    if not isinstance(objective, LatentObjective):
        raise TypeError(
            f"Autoencoder: the objective is {type(objective).__name__}; take ELBO, Renyi or IWAE of lv.vi, or one of "
            "lv.vae, such as Annealed()."
        )
    return objective


def binarize(key: Key, x: jax.Array) -> jax.Array:
    """Bits drawn anew with the grey values in [0, 1] as probabilities."""
    return (jax.random.uniform(key, x.shape) < x).astype(x.dtype)


def check_examples(who: str, data: Any) -> None:
    """Refuse data with missing or infinite values, or that are all the same."""
    for u in jax.tree.leaves(data):
        if isinstance(u, jax.core.Tracer) or not jnp.issubdtype(jnp.result_type(u), jnp.floating):
            continue
        u = np.asarray(u).reshape(len(u), -1)
        bad = ~np.isfinite(u).all(axis=1)
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            raise ValueError(
                f"{who}: {int(bad.sum())} of {len(u)} examples have missing or infinite values, first example {first}; "
                "drop them, or fill the gaps."
            )
    x = np.asarray(parts(data)[0]) if not isinstance(parts(data)[0], jax.core.Tracer) else np.arange(2.0)
    if x.size and not np.any(x):
        raise ValueError(f"{who}: every value of `data` is zero; look whether the images were scaled as integers.")
