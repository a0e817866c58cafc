r"""Monte Carlo variational autoencoders: the encoder's draw is annealed by Langevin steps inside the bound.

    L = E log (1/S) Σ_s w_s,      w of `evidence.annealing.langevin`, from q_φ(z | x) to p_θ(x, z).

Unadjusted steps (L-MCVAE) give a bound that is smooth; with a Metropolis test (A-MCVAE) the gradient has a term of the
score, whose control variate for a chain is the bound with its weight replaced by the geometric mean of the others'.

References
----------
Thin, Kotelevskii, Doucet, Durmus, Moulines & Panov (2021), Monte Carlo variational auto-encoders, algorithms 2 and 3.
Mnih & Rezende (2016), Variational inference for Monte Carlo objectives (the control variate).
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from langevin.core.record import record, static
from langevin.evidence.annealing.ladder import power_ladder
from langevin.evidence.annealing.langevin import log_weight
from langevin.evidence.weights import log_mean_exp
from langevin.targets.path import Geometric


@record
class AnnealedLangevin:
    """MCVAE.

    steps: K, rungs, a step at each; 0 is IWAE.
    draws: S, chains of one example.
    step_size: η, or what it begins with.
    metropolis: whether a step is accepted or refused.
    learn: "log_step" for step sizes that are learned, one for each rung; () for fixed ones.
    """

    steps: int = static(default=5)
    draws: int = static(default=1)
    step_size: Any = 0.01
    metropolis: bool = static(default=False)
    learn: tuple[str, ...] = static(default=())

    def __post_init__(self):
        if self.steps < 0 or self.draws < 1:
            raise ValueError(
                f"AnnealedLangevin: {self.steps} steps and {self.draws} draws; steps must be 0 or more, draws 1 "
                "or more."
            )
        if any(part != "log_step" for part in self.learn):
            raise ValueError(f"AnnealedLangevin: learn is {self.learn}; it must be () or ('log_step',).")

    def init(self, key, model):
        return {"log_step": jnp.full(self.steps, jnp.log(self.step_size))} if self.learn and self.steps else ()

    def values(self, key, posteriors, params):
        if not self.steps:
            return log_mean_exp(posteriors.log_weight(posteriors.draw(key, self.draws)), axis=1)
        log_w, score = self.log_weights(key, posteriors, params)
        value = log_mean_exp(log_w, axis=1)
        if not self.metropolis:
            return value
        held = jax.lax.stop_gradient(value[:, None] - without_each(log_w))
        term = jnp.sum(held * score, axis=1)
        return value + term - jax.lax.stop_gradient(term)

    def log_weights(self, key, posteriors, params):
        """log w and the score of the decisions, (row, draw)."""
        step_size = jnp.exp(params["log_step"]) if self.learn else self.step_size
        beta = power_ladder(self.steps, 1.0)[1:]

        def one(target, base, key):
            k_start, k_run = jax.random.split(key)
            path, start = Geometric(base, target), base.exact(k_start, self.draws)
            go = lambda key, z: log_weight(key, path, beta, step_size, z, metropolis=self.metropolis)[:2]
            return jax.vmap(go)(jax.random.split(k_run, self.draws), start)

        return posteriors.each(one, jax.random.split(key, posteriors.rows))


def without_each(log_w: jax.Array) -> jax.Array:
    """The bound of (row, draw) weights, each in turn replaced by the geometric mean of the others; 0 for one draw."""
    n = log_w.shape[1]
    if n == 1:
        return jnp.zeros_like(log_w)
    mean = (jnp.sum(log_w, axis=1, keepdims=True) - log_w) / (n - 1)
    swapped = jnp.where(jnp.eye(n, dtype=bool)[None], mean[:, :, None], log_w[:, None, :])
    return jax.nn.logsumexp(swapped, axis=2) - math.log(n)
