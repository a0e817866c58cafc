r"""Chains over z from the encoder's draws, any kernel, many examples at once; nothing is differentiated.

A chain moves u = (z − μ_φ(x))/σ_φ(x), so one step size fits every example and every coordinate as far as the encoder
is right about them.

References
----------
Hoffman (2017), Learning deep latent Gaussian models with Markov chain Monte Carlo, §3 (step sizes in units of q).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from langevin.core import noise
from langevin.core.record import record
from langevin.core.target import Exact
from langevin.core.types import Key
from langevin.samplers.hmc import HMC

USUAL = HMC(step_size=0.2, n_leapfrog=5, jitter=0.2)


class Moved(NamedTuple):
    """Where chains went.

    z: (row, draw, latent).
    acceptance: the mean over steps, (row, draw).
    fine: whether a chain stayed finite; one that did not is back at its start.
    """

    z: jax.Array
    acceptance: jax.Array
    fine: jax.Array


@record
class Scaled(Exact):
    """A target in units of a Normal: u = (z − mean)/scale.

    target: over z.
    mean: (latent,).
    scale: (latent,).
    """

    target: Any
    mean: Any
    scale: Any

    def log_density(self, u):
        return self.target.log_density(self.mean + self.scale * u)


def move(key: Key, posteriors: Any, kernel: Any, steps: int, start: jax.Array) -> Moved:
    """So many steps of a kernel from z (row, draw, latent) on the posterior of every example."""
    held = posteriors.held(theta=True, q=True)
    start = jax.lax.stop_gradient(start)

    def one(target, base, key, z):
        scaled = Scaled(target, base.mean, base.scale)

        def chain(key, z):
            k_init, k_run = jax.random.split(key)
            state = kernel.init(k_init, (z - base.mean) / base.scale, scaled)
            words, wrap = noise.words(jax.random.split(k_run, steps))
            state, info = jax.lax.scan(lambda state, word: kernel.step(wrap(word), state, scaled), state, words)
            return base.mean + base.scale * state.position, jnp.mean(info.acceptance)

        return jax.vmap(chain)(jax.random.split(key, z.shape[0]), z)

    end, acceptance = held.each(one, jax.random.split(key, held.rows), start)
    fine = jnp.isfinite(end).all(axis=-1)
    return Moved(jax.lax.stop_gradient(jnp.where(fine[..., None], end, start)), acceptance, fine)


def check_chain(who: str, kernel: Any, steps: int, draws: int) -> None:
    """Refuse chains that do not move, and kernels that move several together."""
    if steps < 0 or draws < 1:
        raise ValueError(f"{who}: {steps} steps and {draws} draws; steps must be 0 or more, draws 1 or more.")
    if kernel.group != 1:
        raise ValueError(f"{who}: {type(kernel).__name__} does not move single chains; take HMC, MALA or ULA.")


def with_gradient(value: jax.Array, of: jax.Array) -> jax.Array:
    """The value of one thing, with the gradient of another."""
    return jax.lax.stop_gradient(value) + of - jax.lax.stop_gradient(of)
