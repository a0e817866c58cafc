r"""How noisy mini-batch gradients are, coordinate by coordinate, from halves of batches.

With ĝ₁, ĝ₂ the gradient estimates of the two halves of a batch, (ĝ₁ − ĝ₂)/2 has mean zero and, for batches drawn with
replacement, the variance V of ĝ = (ĝ₁ + ĝ₂)/2. Its mean square over several batches at every chain's position is V̂, and

    B̂ = h V̂ / 2T

is the `noise_estimate` of SGHMC at its step size h and temperature T. The states come back as they were.

References
----------
Chen, Fox & Guestrin (2014), Stochastic gradient Hamiltonian Monte Carlo, §3.3 (B̂ = ½ ε V̂).
Ahn, Korattikara & Welling (2012), Bayesian posterior sampling via stochastic gradient Fisher scoring (V̂ from a batch).
"""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from langevin.core import tree
from langevin.core.advance import MAPPED
from langevin.core.kernel import replace
from langevin.core.schedule import at
from langevin.core.types import Key, PyTree, State
from langevin.tune.positions import tuner


@tuner
def gradient_noise(key, kernel, target, states, *, batches: int = 32) -> tuple[Any, State]:
    """The kernel with its noise estimate B̂ measured on `batches` batches a chain, and the states unchanged."""
    if "noise_estimate" not in {f.name for f in fields(kernel)}:
        raise TypeError(f"gradient_noise: {type(kernel).__name__} has no noise_estimate to set; SGHMC has.")
    V = variance(key, target, states, batches)
    h, T = at(kernel.step_size, states.count), at(kernel.temperature, states.count)
    return replace(kernel, noise_estimate=tree.scale(h / (2 * T), V)), states


@partial(jax.jit, static_argnames="batches")
def variance(key: Key, target: Any, states: State, batches: int) -> PyTree:
    """V̂, the variance of every coordinate of ĝ, averaged over the chains' positions."""
    chains = jax.tree.leaves(states.position)[0].shape[0]

    def one(key, state):
        def sample(word):
            batch, _ = target.draw(jax.random.wrap_key_data(word, impl=impl), state.feed)
            first, second = (target.evaluate(half, state.position).grad for half in target.parts(batch, 2))
            return jax.tree.map(lambda a, b: (0.5 * (a - b)) ** 2, first, second)

        impl = jax.random.key_impl(key)
        samples = lax.map(sample, jax.random.key_data(jax.random.split(key, batches)))
        return jax.tree.map(lambda u: jnp.mean(u, axis=0), samples)

    each = jax.vmap(one, (0, MAPPED))(jax.random.split(key, chains), states)
    return jax.tree.map(lambda u: jnp.mean(u, axis=0), each)
