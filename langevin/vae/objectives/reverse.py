r"""Hamiltonian variational inference with reverse networks: auxiliary momenta, and networks that guess them back.

    z_0 ~ q_φ(z | x);  for t = 1 … T:  v_t ~ N(0, M),  (z_t, v'_t) = a leapfrog step of (z_{t−1}, v_t);

    L = E[log p_θ(x, z_T) − log q_φ(z_0 | x) + Σ_t log r_t(v'_t | x, z_t) − log N(v_t; 0, M)],

r_t normal, its mean and scale by a network of z_t, of the force there, and of what the encoder says of x. Any r_t
gives a bound; the better it guesses, the tighter. Step sizes and M are learned with it.

References
----------
Salimans, Kingma & Welling (2015), Markov chain Monte Carlo and variational inference: bridging the gap, algorithm 3.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from langevin.core import noise
from langevin.core.record import positive, record, static
from langevin.evidence.base import LOG_2PI
from langevin.evidence.weights import log_mean_exp
from langevin.nets.mlp import MLP


@record
class ReverseNets:
    """HVI of Salimans, Kingma and Welling.

    steps: T.
    leapfrogs: L, leapfrog steps between two draws of the momentum.
    draws: S; S > 1 bounds by the mean weight.
    step_size: of the leapfrog steps, to begin with.
    width: of the reverse networks.
    """

    steps: int = static(default=3)
    leapfrogs: int = static(default=1)
    draws: int = static(default=1)
    step_size: float = positive(default=0.05)
    width: int = static(default=64)

    def __post_init__(self):
        if min(self.steps, self.draws, self.leapfrogs, self.width) < 1:
            raise ValueError(
                f"ReverseNets: steps {self.steps}, leapfrogs {self.leapfrogs}, draws {self.draws}, width {self.width}; "
                "each must be 1 or more."
            )

    def init(self, key, model):
        nets = []
        for k in jax.random.split(key, self.steps):
            net = MLP((4 * model.latent, self.width, 2 * model.latent), k, jnp.tanh)
            last = net.layers[-1]
            net = eqx.tree_at(lambda u: u.layers[-1].weight, net, jnp.zeros_like(last.weight))
            nets.append(eqx.partition(net, eqx.is_inexact_array)[0])
        return {
            "reverse": jax.tree.map(lambda *u: jnp.stack(u), *nets),
            "log_step": jnp.full((self.steps, model.latent), jnp.log(self.step_size)),
            "log_mass": jnp.zeros((self.steps, model.latent)),
        }

    def program(self, latent: int) -> Any:
        """The reverse network without its arrays."""
        shape = lambda: MLP((4 * latent, self.width, 2 * latent), jax.random.key(0), jnp.tanh)
        return eqx.partition(eqx.filter_eval_shape(shape), lambda u: isinstance(u, jax.ShapeDtypeStruct))[1]

    def values(self, key, posteriors, params):
        return log_mean_exp(self.log_weights(key, posteriors, params), axis=1)

    def log_weights(self, key, posteriors, params):
        """log w of every draw, (row, draw)."""
        k_draw, k_momenta = jax.random.split(key)
        z = posteriors.draw(k_draw, self.draws)
        start, program = z, self.program(posteriors.model.latent)
        seen = jnp.concatenate([posteriors.q.mean, jnp.log(posteriors.q.scale)], axis=-1)
        seen = jnp.broadcast_to(seen[:, None], (*z.shape[:2], seen.shape[-1]))
        slope = jax.grad(lambda z: jnp.sum(posteriors.log_joint(z)))

        def step(carry, x):
            z, total, force = carry
            word, reverse, log_step, log_mass = x
            root, h = jnp.exp(0.5 * log_mass)[None, None], jnp.exp(log_step)[None, None]
            e = noise.like(wrap(word), z)
            v = root * e
            for _ in range(self.leapfrogs):
                v = v + 0.5 * h * force
                z = z + h * v / root**2
                force = slope(z)
                v = v + 0.5 * h * force
            read = jnp.concatenate([z, h / root * force, seen], axis=-1)
            mean, log_scale = jnp.split(jax.vmap(jax.vmap(eqx.combine(reverse, program)))(read), 2, axis=-1)
            u = v / root  # in units of √M the Jacobians of v and v' cancel
            back = -0.5 * ((u - mean) * jnp.exp(-log_scale)) ** 2 - log_scale - 0.5 * LOG_2PI
            return (z, total + jnp.sum(back + 0.5 * e**2 + 0.5 * LOG_2PI, axis=-1), force), None

        words, wrap = noise.words(jax.random.split(k_momenta, self.steps))
        xs = words, params["reverse"], params["log_step"], params["log_mass"]
        (z, total, _), _ = jax.lax.scan(step, (z, jnp.zeros(z.shape[:2]), slope(z)), xs)
        return posteriors.log_joint(z) - posteriors.log_q(start) + total
