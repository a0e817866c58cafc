r"""Train a latent variable model and use it: encode, reconstruct, generate, walk between codes, bound log p(x).

`fit` is a run of Adam on `Autoencoder`, its rate falling by a cosine, with a running mean of the weights; `VAE` is what
it gives. `refine`, `weigh` and `sampled` take one too.

References
----------
Chen, Li, Zhang & Li, Bayesian Computation in Deep Learning, algorithm 4.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import progress
from langevin.core.record import record
from langevin.core.types import Key, PyTree
from langevin.evidence.base import Normal
from langevin.nets.train import train
from langevin.vae.autoencoder import Autoencoder, bound_of, posteriors_of
from langevin.vae.model import Encoder, LatentModel, LatentPosterior, rows_of
from langevin.vae.nets import Nets
from langevin.vi.objectives.elbo import ELBO

DEFAULT = ELBO()
BLOCK = 500  # examples evaluated together


@record
class VAE:
    """A trained model.

    model: the generative half.
    encoder: the amortized approximation.
    weights: {"decoder", "encoder", "objective"}.
    objective: what it was trained by.
    trace: the bound on the way, of mini-batches.
    """

    model: LatentModel
    encoder: Encoder
    weights: PyTree
    objective: Any = DEFAULT
    trace: Any = ()

    def encode(self, x: Any) -> Normal:
        """q(z | x) of every example: a Normal with mean and scale (n, latent)."""
        return _encode(self.encoder, self.weights["encoder"], x)

    def decode(self, z: jax.Array, *condition) -> jax.Array:
        """The mean of x given z (n, latent)."""
        return _decode(self.model, self.weights["decoder"], jnp.asarray(z), *condition)

    def reconstruct(self, x: Any) -> jax.Array:
        """The mean of x given the mean of its code."""
        return self.decode(self.encode(x).mean, *(x[1:] if isinstance(x, (tuple, list)) else ()))

    def generate(self, key: Key, n: int, *condition, mean: bool = False) -> jax.Array:
        """n new examples, or their means."""
        return _generate(key, self.model, self.weights["decoder"], n, mean, *condition)

    def walk(self, start: Any, end: Any, n: int = 10) -> jax.Array:
        """Means along the straight line between the codes of two examples, (n, …)."""
        a, b = (self.encode(jax.tree.map(lambda u: jnp.asarray(u)[None], x)).mean[0] for x in (start, end))
        share = jnp.linspace(0, 1, n)[:, None]
        return self.decode((1 - share) * a[None] + share * b[None])

    def posterior(self, example: Any) -> LatentPosterior:
        """The posterior over z of one example, a target for any kernel and any method of evidence."""
        return self.model.posterior(self.weights["decoder"], example)

    def bound(self, key: Key, x: Any, objective: Any = None, *, repeats: int = 1) -> np.ndarray:
        """A bound of log p(x) for every example: the mean over `repeats` estimates of the objective."""
        bound = bound_of(self.objective if objective is None else objective)
        learned = self.weights["objective"] if objective is None else bound.init(key, self.model)
        weights = self.weights | {"objective": learned}
        one = partial(_bound, self.model, self.encoder, bound, repeats, weights)
        return in_blocks(one, key, x, what="bound")


def fit(
    key: Key,
    nets: Nets,
    data: Any,
    *,
    objective: Any = DEFAULT,
    steps: int = 20_000,
    rate: float = 1e-3,
    batch: int = 100,
    corrupt: Callable | None = None,
    decay: float = 0.999,
    **options: Any,
) -> VAE:
    """Train by an objective.

    nets: of `dense`, `convolutional` or `as_nets`.
    data: x (n, …), or (x, condition).
    objective: ELBO, Renyi or IWAE of `lv.vi`, or one of `lv.vae`.
    steps, rate, batch: of Adam.
    corrupt: (key, x) → x for every mini-batch, such as `binarize`.
    decay: of the running mean of the weights.
    options: callbacks and store, as in `run`.
    """
    k_init, k_train = jax.random.split(key)
    target = Autoencoder(nets.model, nets.encoder, objective, data, batch=min(batch, rows_of(data)), corrupt=corrupt)
    start = nets.weights | {"objective": target.init(k_init)}
    thin = 10 if steps >= 100 else 1
    starts = jax.tree.map(lambda u: jnp.asarray(u)[None], start)
    found = train(
        k_train, target, starts, steps=steps, rate=rate, last=1e-3, clip=1e4, decay=decay, thin=thin, **options
    )
    if found.run.interrupted:
        raise KeyboardInterrupt("vae.fit: interrupted; with store= the same call goes on.")
    trace = np.asarray(found.notes)[0]
    check_trained("vae.fit", trace, found.of(0))
    return VAE(nets.model, nets.encoder, found.of(0), objective, trace)


def check_trained(who: str, trace: np.ndarray, weights: PyTree) -> None:
    """Refuse weights that became NaN."""
    fine = all(bool(jnp.isfinite(u).all()) for u in jax.tree.leaves(weights))
    if fine and np.isfinite(trace[-1]):
        return
    first = int(np.argmin(np.isfinite(trace))) if not np.isfinite(trace).all() else len(trace)
    raise FloatingPointError(
        f"{who}: the bound became NaN or infinite after {first / len(trace):.0%} of the steps; lower `rate` or the "
        "step size of the objective, or look whether the decoder's output is finite."
    )


def in_blocks(fn: Callable, key: Key, x: Any, *, what: str, block: int = BLOCK) -> np.ndarray:
    """fn(key, rows) of all examples, so many at a time; the last block is filled up and cut."""
    n = rows_of(x)
    block, found = min(block, n), []
    for first in range(0, n, block):
        index = np.minimum(np.arange(first, first + block), n - 1)
        rows = jax.tree.map(lambda u, index=index: jnp.asarray(u)[index], x)
        value = fn(jax.random.fold_in(key, first), rows)
        found.append(jax.tree.map(lambda u, first=first: np.asarray(u)[: n - first], value))
        progress.tell(min(first + block, n), n)
    return jax.tree.map(lambda *u: np.concatenate(u), *found)


@jax.jit
def _encode(encoder, phi, x):
    return jax.vmap(encoder, (None, 0))(phi, x)


@jax.jit
def _decode(model, theta, z, *condition):
    return jax.vmap(lambda z, *c: model.likelihood.mean(model.decode(theta, z, *c)))(z, *condition)


@partial(jax.jit, static_argnames=("n", "mean"))
def _generate(key, model, theta, n, mean, *condition):
    return model.generate(key, theta, n, *condition, mean=mean)


@partial(jax.jit, static_argnums=3)
def _bound(model, encoder, bound, repeats, weights, key, rows):
    found = posteriors_of(model, encoder, weights, rows)
    one = lambda key: bound.values(key, found, weights["objective"])
    return jnp.mean(jax.lax.map(one, jax.random.split(key, repeats)), axis=0)
