r"""Inference at test time: better posteriors over z than the encoder's, and what the encoder loses.

`refine` draws z from p_θ(z | x) by any kernel, begun at the encoder's draws. `gaps` splits what the ELBO lacks:

    log p(x) − ELBO(q_φ) = [log p(x) − ELBO(q*)]  +  [ELBO(q*) − ELBO(q_φ)]
                             approximation gap        amortization gap

q* the best normal for each example alone, found by Adam from the encoder's. log p(x) is that of `log_likelihood`.

References
----------
Cremer, Li & Duvenaud (2018), Inference suboptimality in variational autoencoders, eqs. (3)-(5).
Hoffman (2017), Learning deep latent Gaussian models with Markov chain Monte Carlo.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from langevin.core.types import Key
from langevin.evidence.annealing.ais import AIS
from langevin.evidence.base import Normal
from langevin.vae.chains import USUAL, Moved, check_chain, move
from langevin.vae.fit import VAE, in_blocks
from langevin.vae.model import Posteriors
from langevin.vae.weigh import log_likelihood


class Gaps(NamedTuple):
    """In nats, of every example: log p(x) (a lower bound on average), and both gaps; `summary` are their means."""

    log_p: np.ndarray
    approximation: np.ndarray
    amortization: np.ndarray

    @property
    def summary(self) -> dict[str, float]:
        return {name: float(getattr(self, name).mean()) for name in self._fields}

    def plot(self, axes: Any = None) -> Any:
        """Both gaps, their means as bars and the spread over examples as boxes."""
        if axes is None:
            import matplotlib.pyplot as plt

            axes = plt.subplots(figsize=(4.5, 3.2), layout="constrained")[1]
        parts = [self.approximation, self.amortization]
        axes.bar([0, 1], [u.mean() for u in parts], width=0.55, color=["#2a6f97", "#e0a458"], alpha=0.5)
        axes.boxplot(parts, positions=[0, 1], widths=0.25, showfliers=False, medianprops={"color": "#333333"})
        axes.set_xticks([0, 1], ["approximation", "amortization"])
        axes.set_ylabel("nats an example")
        return axes


def refine(
    key: Key, vae: VAE, x: Any, *, kernel: Any = USUAL, steps: int = 100, draws: int = 10, block: int = 500
) -> Moved:
    """Draws of p_θ(z | x), (n, draw, latent): so many steps of a kernel from the encoder's draws.

    kernel: its step size is in units of the encoder's standard deviations.
    """
    check_chain("refine", kernel, steps, draws)
    return Moved(*in_blocks(partial(_refine, vae, kernel, steps, draws), key, x, what="refine", block=block))


def fit_each(key: Key, vae: VAE, x: Any, *, steps: int = 500, draws: int = 8, rate: float = 0.02, block: int = 500):
    """The normal of the largest ELBO for each example alone: (mean, scale), (n, latent) both."""
    return in_blocks(partial(_fit, vae, steps, draws, rate), key, x, what="fit", block=block)


def gaps(
    key: Key, vae: VAE, x: Any, *, method: Any = None, steps: int = 500, draws: int = 200, block: int = 500
) -> Gaps:
    """What the ELBO of each example lacks, and why.

    method: that gives log p(x), AIS of 1,000 rungs by default.
    steps: of Adam, for the best normal of every example.
    draws: for both ELBOs, the same random numbers in both.
    """
    k_fit, k_elbo, k_weigh = jax.random.split(key, 3)
    mean, scale = fit_each(k_fit, vae, x, steps=steps, block=block)
    own = vae.encode(x)
    elbo = lambda mean, scale: in_blocks(
        lambda key, rows: _elbo(vae, draws, key, *rows),
        jax.random.clone(k_elbo),
        (x, np.asarray(mean), np.asarray(scale)),
        what="elbo",
        block=block,
    )
    amortized, best = elbo(own.mean, own.scale), elbo(mean, scale)
    method = AIS(ladder=1000, particles=10) if method is None else method
    log_p = log_likelihood(k_weigh, vae, x, method, base="encoder", block=block).values
    return Gaps(log_p, log_p - best, best - amortized)


def _posteriors(vae: VAE, rows: Any, q: Normal | None = None) -> Posteriors:
    q = jax.vmap(vae.encoder, (None, 0))(vae.weights["encoder"], rows) if q is None else q
    return Posteriors(vae.model, vae.weights["decoder"], rows, q)


@partial(jax.jit, static_argnums=(2, 3))
def _refine(vae, kernel, steps, draws, key, rows):
    k_start, k_move = jax.random.split(key)
    found = _posteriors(vae, rows)
    return tuple(move(k_move, found, kernel, steps, found.draw(k_start, draws)))


@partial(jax.jit, static_argnums=(1, 2))
def _fit(vae, steps, draws, rate, key, rows):
    begun = _posteriors(vae, rows).q
    optimizer = optax.adam(optax.cosine_decay_schedule(rate, steps))

    def elbo(params, key):
        mean, log_scale = params
        found = _posteriors(vae, rows, Normal(mean, jnp.exp(log_scale)))
        return -jnp.sum(jnp.mean(found.log_likelihood(found.draw(key, draws)), axis=1) - found.divergence())

    def step(carry, key):
        params, memory = carry
        updates, memory = optimizer.update(jax.grad(elbo)(params, key), memory)
        return (optax.apply_updates(params, updates), memory), None

    params = begun.mean, jnp.log(begun.scale)
    (params, _), _ = jax.lax.scan(step, (params, optimizer.init(params)), jax.random.split(key, steps))
    return params[0], jnp.exp(params[1])


@partial(jax.jit, static_argnums=1)
def _elbo(vae, draws, key, rows, mean, scale):
    found = _posteriors(vae, rows, Normal(mean, scale))
    return jnp.mean(found.log_likelihood(found.draw(key, draws)), axis=1) - found.divergence()
