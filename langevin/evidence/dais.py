r"""Differentiable annealed importance sampling: a lower bound of log Z that `jax.grad` sees through.

On the path f_β = q^{1−β} p̃^β a chain starts at θ ~ q, v ~ N(0, M) and, for k = 1 … K, with g = ∇log f_{β_k},

    x = θ + ½ η M⁻¹v;   v̂ = v + η g(x);   θ ← x + ½ η M⁻¹v̂;   v ← γ v̂ + √(1 − γ²) ε,  ε ~ N(0, M),

and log w = log p̃(θ_K) − log q(θ_0) + Σ_k log N(v̂_k)/N(v_{k−1}). Each ratio is −η g·M⁻¹v − ½ η² g·M⁻¹g, which does not
subtract two large squares. E w = Z for every K, η, γ, M and ladder, so log of a mean of S weights is a lower bound on
average; how far below depends on them. No step is rejected: the bound is smooth in the ladder, η, γ, M, in q (then it
is DAVI) and in the parameters of p̃, and each may be learned.

This is an exception to "one loop": the weight lives inside the step, and gradients flow through all of it. Memory for
them is K states ("scan"), 2√K ("checkpoint"), or nearly none ("reversible", in `evidence.reversible`, or a Reversible).

References
----------
Zhang, Hsu, Li, Finn & Grosse (2021), Differentiable annealed importance sampling, algorithm 1; eq. 23 (S particles).
Geffner & Domke (2021), MCMC variational inference via uncorrected Hamiltonian annealing (the same bound).
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree

from langevin.core import noise, tree
from langevin.core.record import record
from langevin.core.target import minibatched
from langevin.core.types import Key, PyTree, Scalar
from langevin.evidence.base import began, examples
from langevin.evidence.ladder import rungs
from langevin.evidence.local import local
from langevin.evidence.reversible import Reversible, trajectory
from langevin.evidence.types import Evidence
from langevin.evidence.weights import added, log_mean_exp, unbiased
from langevin.targets.path import Geometric

Memory = Literal["auto", "scan", "checkpoint", "reversible"]
LONG = 1000  # rungs from which on integers cost less than they save


@record
class Annealing:
    """How a chain is annealed; every number may be learned.

    beta: β_1 … β_K, (K,); β_0 = 0 is the base itself.
    step_size: η, one number or (K,).
    gamma: γ, the share of the velocity that a step keeps.
    mass: M, diagonal: a number, or a tree like the position.
    """

    beta: Any
    step_size: Any = 0.1
    gamma: Any = 0.9
    mass: Any = 1.0

    @property
    def length(self) -> int:
        return self.beta.shape[0]

    def steps(self) -> jax.Array:
        """η_1 … η_K."""
        return jnp.broadcast_to(self.step_size, (self.length,))


def leap(path: Any, mass: PyTree, beta, eta, theta: PyTree, v: PyTree) -> tuple[PyTree, PyTree, Scalar]:
    """One leapfrog step at β: (θ', v̂, log N(v̂)/N(v))."""
    half = jax.tree.map(lambda u, m: (0.5 * eta / m) * u, v, mass)
    x = tree.add(theta, half)
    g = jax.grad(path.at(beta).log_density)(x)
    moved = tree.axpy(eta, g, v)
    weighed = jax.tree.map(lambda u, m: u / m, g, mass)
    gain = -eta * tree.dot(weighed, v) - 0.5 * eta**2 * tree.dot(weighed, g)
    theta = jax.tree.map(lambda u, w, m: u + (0.5 * eta / m) * w, x, moved, mass)
    return theta, moved, gain


def refreshed(key: Key, gamma, mass: PyTree, v: PyTree) -> PyTree:
    """γ v + √(1 − γ²) ε, ε ~ N(0, M)."""
    spare = jnp.sqrt(jnp.maximum(1 - gamma**2, 0.0))
    return jax.tree.map(lambda u, m, e: gamma * u + spare * jnp.sqrt(m) * e, v, mass, noise.like(key, v))


def log_weight(
    key: Key,
    path: Any,
    annealing: Annealing,
    theta: PyTree,
    *,
    memory: Memory | Reversible = "auto",
    surrogate: Any = None,
) -> Scalar:
    """log w of one chain from a draw θ of the base; path is Geometric(base, target).

    memory: what `grad` keeps; "auto" is "reversible" for long ladders with γ > 0 that is known, else "checkpoint".
    surrogate: a target whose gradients drive the chain in place of the target's; the weight stays valid.
    """
    mass = tree.fill(annealing.mass, theta)
    k_start, k_steps = jax.random.split(key)
    v = jax.tree.map(lambda m, e: jnp.sqrt(m) * e, mass, noise.like(k_start, theta))
    drive = path if surrogate is None else Geometric(path.base, surrogate)
    memory = _chosen(annealing) if memory == "auto" else memory
    if memory in ("scan", "checkpoint"):
        end, gained = _scanned(k_steps, drive, annealing, mass, theta, v, memory)
    else:
        how = memory if isinstance(memory, Reversible) else None
        end, gained = trajectory(k_steps, drive, annealing, mass, theta, v, how)
    return path.target.log_density(end) - path.base.log_density(theta) + gained


def log_weights(
    key: Key,
    target: Any,
    base: Any,
    annealing: Annealing,
    *,
    particles: int,
    memory: Memory | Reversible = "auto",
    surrogate: Any = None,
) -> jax.Array:
    """log w of independent chains, (particle,): what to differentiate; `bound` is the log of their mean."""
    k_start, k_run = jax.random.split(key)
    path, starts = Geometric(base, target), base.exact(k_start, particles)
    words, wrap = noise.words(jax.random.split(k_run, particles))
    one = lambda word, theta: log_weight(wrap(word), path, annealing, theta, memory=memory, surrogate=surrogate)
    return jax.vmap(one)(words, starts)


def bound(key: Key, target: Any, base: Any, annealing: Annealing, *, particles: int = 1, memory: Any = "auto"):
    """log of the mean of S weights: below log Z on average, and smooth in target, base and annealing."""
    return log_mean_exp(log_weights(key, target, base, annealing, particles=particles, memory=memory))


def dais(
    key: Key,
    target: Any,
    base: Any,
    *,
    ladder: Any = 1000,
    step_size: Any = None,
    gamma: float = 0.9,
    mass: Any = 1.0,
    particles: int = 64,
    surrogate: Any = None,
) -> Evidence:
    """log Z by differentiable annealing on all data; steps fit the curvature at the mode if none are given."""
    if minibatched(target):
        raise ValueError(
            "dais: the target looks at mini-batches, whose noise keeps this bound from log Z; "
            "use `midpoint`, or `stochastic_dais` to see it."
        )
    k_start, k_run = jax.random.split(key)
    starts, n_eval = began(k_start, base, target, 64), 0
    beta = rungs(ladder)[1:]
    if step_size is None:
        step_size, n_eval = paced(target, base, jax.tree.map(lambda u: u[0], starts), beta, mass)
    log_w = _weighed(k_run, target, base, Annealing(beta, step_size, gamma, mass), surrogate, particles=particles)
    n_grad = len(beta) * particles + int(n_eval)
    return unbiased(log_w, n_grad=n_grad, n_data=(n_grad + 2 * particles) * examples(target))


@partial(jax.jit, static_argnames="particles")
def _weighed(key, target, base, annealing, surrogate, *, particles):
    return log_weights(key, target, base, annealing, particles=particles, memory="scan", surrogate=surrogate)


def paced(target: Any, base: Any, start: PyTree, beta: jax.Array, mass: Any = 1.0) -> tuple[jax.Array, Any]:
    """η_k = √(h / curvature at β_k), h = √(10/K) and at most ½, and how many gradients it took to know."""
    seen = local(target, base, start)
    mass = tree.fill(mass, start)
    largest = lambda x: jnp.max(ravel_pytree(jax.tree.map(lambda u, m: u / m, x, mass))[0])
    stiff = (1 - beta) * largest(seen.base) + beta * seen.top * largest(seen.curvature)
    return jnp.sqrt(min(0.5, math.sqrt(10 / len(beta))) / stiff), seen.n_eval


def _chosen(annealing: Annealing) -> Memory:
    """What `grad` keeps, by length and γ; a γ that is traced or near no small fraction has no integers."""
    gamma = annealing.gamma
    if annealing.length < LONG or isinstance(gamma, jax.core.Tracer) or not 0 < float(gamma) < 1:
        return "checkpoint"
    return "reversible" if abs(20 * float(gamma) - round(20 * float(gamma))) < 1e-5 else "checkpoint"


def _scanned(key, path, annealing, mass, theta, v, memory):
    """(θ_K, Σ of the log ratios) by `scan`, its gradient with or without checkpoints."""
    words, wrap = noise.words(jax.random.split(key, annealing.length))

    def step(carry, x):
        theta, v, total = carry
        word, beta, eta = x
        theta, v, gain = leap(path, mass, beta, eta, theta, v)
        return (theta, refreshed(wrap(word), annealing.gamma, mass, v), added(total, gain)), None

    xs = words, annealing.beta, annealing.steps()
    carry = theta, v, (jnp.zeros(()), jnp.zeros(()))
    if memory == "scan":
        (theta, _, total), _ = lax.scan(step, carry, xs)
        return theta, total[0]
    n = annealing.length
    inner = max(1, math.isqrt(n))
    whole = n // inner * inner
    blocks = jax.tree.map(lambda u: u[:whole].reshape(n // inner, inner, *u.shape[1:]), xs)
    block = jax.checkpoint(lambda carry, xs: lax.scan(step, carry, xs))
    carry, _ = lax.scan(block, carry, blocks)
    (theta, _, total), _ = lax.scan(step, carry, jax.tree.map(lambda u: u[whole:], xs))
    return theta, total[0]
