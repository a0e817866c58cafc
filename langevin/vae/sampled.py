r"""A posterior over the decoder's weights: p(θ | x_1 … x_N) ∝ p(θ) Π p_θ(x_i), sampled by any kernel of the library.

p_θ(x_i) is replaced by a bound, estimated on mini-batches,

    log density(θ, φ) = log p(θ) + N/B Σ_{i ∈ batch} L(x_i; θ, φ),

so draws of θ are of the posterior up to the tightness of the bound. The encoder is held as trained, or moves with the
decoder as further coordinates whose prior is flat: (θ, φ) then are draws of exp(bound), not of a posterior in φ. What
is predicted is the mixture p(x) = mean_j p_{θ_j}(x) of the draws, `mixture`; it overfits less than one θ.

References
----------
Chen, Li, Zhang & Li, Bayesian Computation in Deep Learning, §3.3.
Burda, Grosse & Salakhutdinov (2016), Importance weighted autoencoders (how much a decoder overfits).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import tree
from langevin.core.record import positive, record, replace, static
from langevin.core.types import Key, PyTree, Scalar
from langevin.targets.stream import Randomized
from langevin.vae.autoencoder import Autoencoder, check_examples
from langevin.vae.fit import VAE
from langevin.vae.weigh import log_likelihood


@record
class DecoderPosterior(Randomized):
    """The posterior over a decoder's weights; a position is {"decoder"}, and {"encoder"} where it moves too.

    vae: what was trained; a chain starts at its weights.
    data: x (n, …), or (x, condition).
    objective: the bound of log p(x); None for the one it was trained by.
    scale: standard deviation of the weights' normal prior.
    batch: examples in a mini-batch; None for all.
    order: "epoch" or "replacement".
    corrupt: (key, x) → x for every mini-batch.
    encoder: "held" or "moves".
    """

    vae: VAE
    data: Any
    objective: Any = None
    scale: float = positive(default=1.0)
    batch: int | None = static(default=100)
    order: Literal["replacement", "epoch"] = static(default="epoch")
    corrupt: Callable | None = static(default=None)
    encoder: Literal["held", "moves"] = static(default="held")

    def __post_init__(self):
        check_examples("DecoderPosterior", self.data)
        Randomized.__post_init__(self)
        if self.encoder not in ("held", "moves"):
            raise ValueError(f"DecoderPosterior: encoder is {self.encoder!r}; it must be 'held' or 'moves'.")

    def begin(self, chains: int = 1) -> PyTree:
        """Positions (chain, …) to start from: the trained weights."""
        parts = ("decoder", "encoder") if self.encoder == "moves" else ("decoder",)
        return jax.tree.map(lambda u: jnp.repeat(u[None], chains, axis=0), {p: self.vae.weights[p] for p in parts})

    def prior(self, position: PyTree) -> Scalar:
        weights = position["decoder"]
        return -0.5 * tree.dot(weights, weights) / self.scale**2

    def value(self, key, rows, position):
        aim = Autoencoder(self.vae.model, self.vae.encoder, self._objective(), rows, batch=None, corrupt=self.corrupt)
        return self.prior(position) + self.n * jnp.mean(aim.values(key, rows, self.vae.weights | position))

    def _objective(self):
        return self.vae.objective if self.objective is None else self.objective


def with_weights(vae: VAE, position: PyTree) -> VAE:
    """The model with these weights in place of its own."""
    return replace(vae, weights=vae.weights | position)


def mixture(key: Key, vae: VAE, draws: PyTree, x: Any, method: Any, **options: Any) -> np.ndarray:
    """log p(x) of every example under the mixture of decoders.

    draws: positions (draw, …), such as `jax.tree.map(lambda u: u.reshape(-1, *u.shape[2:]), posterior.draws)`.
    method, options: as in `log_likelihood`.
    """
    n = jax.tree.leaves(draws)[0].shape[0]
    each = []
    for i, k in enumerate(jax.random.split(key, n)):
        one = with_weights(vae, jax.tree.map(lambda u, i=i: jnp.asarray(u[i]), draws))
        each.append(log_likelihood(k, one, x, method, **options).values)
    return np.logaddexp.reduce(np.stack(each), axis=0) - np.log(n)
