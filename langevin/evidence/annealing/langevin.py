r"""Annealed importance sampling with Langevin steps, differentiable: unadjusted, or with a Metropolis test.

On f_β = q^{1−β} p̃^β, with g_k = ∇log f_{β_k} and ε ~ N(0, I), a step is z' = z + η g_k(z) + √(2η) ε.

    unadjusted   log w = log p̃(z_K) − log q(z_0) + Σ log N(z; z' + η g_k(z'), 2η) − log N(z'; z + η g_k(z), 2η)
    Metropolis   log w = Σ (β_k − β_{k−1}) (log p̃ − log q)(z_{k−1}), z' accepted with the probability α of MALA

Both have E w = Z. The first is smooth in everything. In the second the decisions are not, so the gradient of E log w
has a term of the score: with s = Σ log α (accepted) + Σ log(1 − α) (refused) it is E[∇log w + log w ∇s]; s is returned.

References
----------
Thin, Kotelevskii, Doucet, Durmus, Moulines & Panov (2021), Monte Carlo variational auto-encoders, eqs. (13)-(17).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from langevin.core import noise, tree
from langevin.core.types import Key, PyTree, Scalar
from langevin.targets.tempered import blend


def log_weight(
    key: Key, path: Any, beta: jax.Array, step_size: Any, theta: PyTree, *, metropolis: bool = False
) -> tuple[Scalar, Scalar, Scalar]:
    """(log w, s, share of steps accepted) of one chain from a draw θ of the base.

    beta: β_1 … β_K; step_size: η, one number or (K,).
    """
    beta = jnp.asarray(beta)
    words, wrap = noise.words(jax.random.split(key, len(beta)))
    steps = jnp.broadcast_to(step_size, beta.shape)
    before = jnp.concatenate([jnp.zeros(1, beta.dtype), beta[:-1]])
    move = _adjusted if metropolis else _unadjusted
    zero = jnp.zeros(())
    carry = (theta, _ends(path, theta), zero, zero, zero)

    def step(carry, x):
        *numbers, word = x
        return move(path, wrap(word), carry, *numbers), None

    (_, (p, _), total, score, accepted), _ = lax.scan(step, carry, (before, beta, steps, words))
    if not metropolis:
        total = total + p[0] - path.base.log_density(theta)
    return total, score, accepted / len(beta)


def _ends(path, theta):
    """Value and gradient of target and base."""
    return tuple(jax.value_and_grad(law.log_density)(theta) for law in (path.target, path.base))


def _propose(path, key, carry, beta, eta):
    """The proposal, what is known there, and log N(z; from z') − log N(z'; from z)."""
    theta, (p, q), *_ = carry
    e = noise.like(key, theta)
    slope = blend_tree(beta, p[1], q[1])
    new = jax.tree.map(lambda u, g, e: u + eta * g + jnp.sqrt(2 * eta) * e, theta, slope, e)
    there = _ends(path, new)
    back = jax.tree.map(lambda u, v, g: u - v - eta * g, theta, new, blend_tree(beta, there[0][1], there[1][1]))
    return new, there, 0.5 * tree.dot(e, e) - tree.dot(back, back) / (4 * eta)


def _unadjusted(path, key, carry, before, beta, eta):
    new, there, gain = _propose(path, key, carry, beta, eta)
    return new, there, carry[2] + gain, carry[3], carry[4] + 1.0


def _adjusted(path, key, carry, before, beta, eta):
    theta, (p, q), total, score, accepted = carry
    k_move, k_accept = jax.random.split(key)
    total = total + (beta - before) * (p[0] - q[0])
    new, there, gain = _propose(path, k_move, carry, beta, eta)
    log_ratio = blend(beta, there[0][0], there[1][0]) - blend(beta, p[0], q[0]) + gain
    log_ratio = jnp.where(jnp.isnan(log_ratio), -jnp.inf, log_ratio)
    log_accept = jnp.minimum(log_ratio, 0.0)
    yes = jnp.log(jax.random.uniform(k_accept)) < log_accept
    # log(1 − α); where α is 1 the move cannot be refused
    refused = jnp.log(-jnp.expm1(jnp.minimum(log_ratio, -1e-6)))
    score = score + jnp.where(yes, log_accept, refused)
    theta, there = jax.tree.map(lambda a, b: jnp.where(yes, a, b), (new, there), (theta, (p, q)))
    return theta, there, total, score, accepted + yes


def blend_tree(beta, one: PyTree, other: PyTree) -> PyTree:
    return jax.tree.map(lambda u, v: blend(beta, u, v), one, other)
