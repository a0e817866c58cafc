r"""Differentiable annealed importance sampling: a lower bound of log Z that `jax.grad` sees through.

On the path f_β = q^{1−β} p̃^β a chain starts at θ ~ q, v ~ N(0, M) and, for k = 1 … K, with g = ∇log f_{β_k},

    x = θ + ½ η M⁻¹v;   v̂ = v + η g(x);   θ ← x + ½ η M⁻¹v̂;   v ← γ v̂ + √(1 − γ²) ε,  ε ~ N(0, M),

and log w = log p̃(θ_K) − log q(θ_0) + Σ_k log N(v̂_k)/N(v_{k−1}). Each ratio is −η g·M⁻¹v − ½ η² g·M⁻¹g, which does not
subtract two large squares. E w = Z for every K, η, γ, M and ladder, so log of a mean of S weights is a lower bound on
average; how far below depends on them. No step is rejected: the bound is smooth in the ladder, η, γ, M, in q (then it
is DAVI) and in the parameters of p̃, and each may be learned.

This is an exception to "one loop": the weight lives inside the step, and gradients flow through all of it. Memory for
them is K states ("scan"), 2√K ("checkpoint"), or nearly none ("reversible", or a Reversible).
A state is θ, v and what is dear to compute twice: products of matrices, and on CPU exponentials and their kin. Noise is
drawn for many steps at once, and a position is one vector: a step is then few, small operations, which is what costs.

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
from langevin.core.record import record, static
from langevin.core.target import examples
from langevin.core.types import Key, PyTree, Scalar
from langevin.evidence.annealing.ladder import to_ladder
from langevin.evidence.annealing.reversible import Reversible, trajectory
from langevin.evidence.base import Normal, draw_starts
from langevin.evidence.method import Method, method
from langevin.evidence.mode import find_mode
from langevin.evidence.types import Evidence
from langevin.evidence.weights import add, log_mean_exp, summarize
from langevin.targets.path import Geometric
from langevin.targets.tempered import blend

Memory = Literal["auto", "scan", "checkpoint", "reversible"]
SHORT = 64  # rungs up to which all of them are kept
LONG = 1000  # rungs from which on integers cost less than they save
BLOCK = 2**16  # numbers of noise that a chain draws at once
UNROLL = 4  # steps that a GPU is given at once; on CPU they only lengthen the compilation
LARGE = 1024  # numbers from which on a CPU has an exponential sooner from memory than anew
MATRIX = frozenset({"dot_general", "conv_general_dilated"})
DEAR = MATRIX | {
    *("exp", "exp2", "expm1", "log", "log1p", "logistic", "tanh", "erf", "erfc", "pow", "lgamma", "digamma"),
    *("custom_jvp_call", "custom_vjp_call", "cholesky", "triangular_solve"),
    "transpose",  # `vmap` turns a product before it is used; kept as it was it would be turned again at every use
}


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


def log_weight(
    key: Key,
    path: Any,
    annealing: Annealing,
    theta: PyTree,
    *,
    memory: Memory | Reversible = "auto",
    surrogate: Any = None,
    backward: Any = None,
) -> Scalar:
    """log w of one chain from a draw θ of the base; path is Geometric(base, target).

    memory: what `grad` keeps; "auto" is "scan" for short ladders, "reversible" for long ones with γ > 0 that is known,
      else "checkpoint".
    surrogate: a target whose gradients drive the chain in place of the target's; the weight stays valid.
    backward: what a learned backward kernel adds to log w: a record whose `gain(annealing.gamma, mass, beta, θ, v, v̂)`
      takes a block of steps, (step, …), over the raveled position (`ldvi`).
    """
    mass = tree.fill(annealing.mass, theta)
    k_start, k_steps = jax.random.split(key)
    v = jax.tree.map(lambda m, e: jnp.sqrt(m) * e, mass, noise.like(k_start, theta))
    drive = path if surrogate is None else Geometric(path.base, surrogate)
    memory = _choose_memory(annealing, backward) if memory == "auto" else memory
    if memory in ("scan", "checkpoint"):
        end, gained = _scan(k_steps, drive, annealing, mass, theta, v, memory, backward)
    elif backward is not None:
        raise ValueError('dais: a learned backward kernel sees every state; take memory="scan" or "checkpoint".')
    else:
        how = memory if isinstance(memory, Reversible) else None
        end, gained = trajectory(k_steps, drive, annealing, mass, theta, v, how)
    return path.target.log_density(end) - path.base.log_density(theta) + gained


def log_weights(key: Key, target: Any, base: Any, annealing: Annealing, *, particles: int, **options: Any) -> jax.Array:
    """log w of independent chains, (particle,): what to differentiate; `bound` is the log of their mean.

    options: memory, surrogate and backward, as in `log_weight`.
    """
    k_start, k_run = jax.random.split(key)
    path, starts = Geometric(base, target), base.exact(k_start, particles)
    words, wrap = noise.words(jax.random.split(k_run, particles))
    one = lambda word, theta: log_weight(wrap(word), path, annealing, theta, **options)
    return jax.vmap(one)(words, starts)


def bound(key: Key, target: Any, base: Any, annealing: Annealing, *, particles: int = 1, **how: Any) -> Scalar:
    """log of the mean of S weights: below log Z on average, and smooth in target, base and annealing."""
    return log_mean_exp(log_weights(key, target, base, annealing, particles=particles, **how))


@method("dais")
class DAIS(Method):
    """Differentiable annealing on all data: unbiased-Z.

    ladder: the rungs, or how many.
    step_size: η, one number or one for each step; None for steps that fit the curvature at the mode.
    gamma: γ, the share of the velocity that a step keeps.
    mass: M, diagonal: a number, or a tree like the position.
    particles: chains.
    surrogate: a target whose gradients drive the chains in place of the target's.
    """

    ladder: Any = static(default=1000)
    step_size: Any = None
    gamma: float = 0.9
    mass: Any = 1.0
    particles: int = static(default=64)
    surrogate: Any = None

    def estimate_evidence(self, key, target, base, draws) -> Evidence:
        k_start, k_run = jax.random.split(key)
        start = jax.tree.map(lambda u: u[0], draw_starts(k_start, base, target, 64))
        annealing, n_eval = begin_annealing(self, target, base, start)
        log_w = weigh(k_run, target, base, annealing, surrogate=self.surrogate, particles=self.particles)
        return summarize_chains(log_w, annealing.length * self.particles + n_eval, target)


def begin_annealing(method: Any, target: Any, base: Any, start: PyTree) -> tuple[Annealing, int]:
    """The annealing of a method with ladder, step_size, gamma and mass, and the gradients that steps of None took."""
    beta, step_size, n_eval = to_ladder(method.ladder)[1:], method.step_size, 0
    if step_size is None:
        step_size, n_eval = choose_steps(target, base, start, beta, method.mass)
    return Annealing(beta, step_size, method.gamma, method.mass), int(n_eval)


def summarize_chains(log_w: jax.Array, n_grad: int, target: Any) -> Evidence:
    """The evidence of weights that took so many gradients, and the density at both ends of every chain."""
    return summarize(log_w, n_grad=n_grad, n_data=(n_grad + 2 * log_w.shape[0]) * examples(target))


@partial(jax.jit, static_argnames="particles")
def weigh(key, target, base, annealing, *, surrogate=None, backward=None, particles):
    """`log_weights` without a gradient, compiled."""
    options: dict[str, Any] = dict(memory="scan", surrogate=surrogate, backward=backward)
    return log_weights(key, target, base, annealing, particles=particles, **options)


def choose_steps(target: Any, base: Any, start: PyTree, beta: jax.Array, mass: Any = 1.0) -> tuple[jax.Array, Any]:
    """η_k = √(h / curvature at β_k), h = √(10/K) and at most ½, and how many gradients it took to know."""
    mode = find_mode(target, base, start)
    mass = tree.fill(mass, start)
    largest = lambda x: jnp.max(ravel_pytree(jax.tree.map(lambda u, m: u / m, x, mass))[0])
    stiff = (1 - beta) * largest(mode.base) + beta * mode.top * largest(mode.curvature)
    return jnp.sqrt(min(0.5, math.sqrt(10 / len(beta))) / stiff), mode.n_eval


def _choose_memory(annealing: Annealing, backward: Any = None) -> Memory:
    """What `grad` keeps, by length and γ; a γ that is traced or near no small fraction has no integers."""
    gamma = annealing.gamma
    if annealing.length <= SHORT:
        return "scan"
    if backward is not None or isinstance(gamma, jax.core.Tracer) or not 0 < float(gamma) < 1:
        return "checkpoint"
    small = abs(20 * float(gamma) - round(20 * float(gamma))) < 1e-5
    return "reversible" if small and annealing.length >= LONG else "checkpoint"


def _scan(key, path, annealing, mass, theta, v, memory, backward):
    """(θ_K, Σ of the log ratios) by `scan` over blocks of steps; with checkpoints `grad` goes through a block again."""
    n = annealing.length
    words, wrap = noise.words(jax.random.split(key, n))
    x, back = ravel_pytree(theta)
    mass = ravel_pytree(_widen(mass, theta))[0]
    most = math.isqrt(n) if memory == "checkpoint" else min(n, max(1, BLOCK // max(1, x.size)))
    size = next((k for k in range(most, most // 2, -1) if n % k == 0), most)
    kept = jax.checkpoint if memory == "checkpoint" else lambda block: block
    block = kept(partial(_block, path, annealing.gamma, mass, back, wrap, backward))
    carry, xs = (x, ravel_pytree(v)[0], (jnp.zeros(()), jnp.zeros(()))), (words, annealing.beta, annealing.steps())
    whole, rest = divmod(n, size)
    if whole > 1:
        cut = jax.tree.map(lambda u: u[: n - rest].reshape(whole, size, *u.shape[1:]), xs)
        carry, _ = lax.scan(lambda carry, xs: (block(carry, xs), None), carry, cut)
        xs = jax.tree.map(lambda u: u[n - rest :], xs)
    x, _, total = block(carry, xs) if whole == 1 or rest else carry
    return back(x), total[0]


def _block(path, gamma, mass, back, wrap, backward, carry, xs):
    """Some steps on raveled positions, the noise of all of them drawn before."""
    theta, v, total = carry
    words, beta, eta = xs
    like, near = back(theta), lambda u: u.astype(theta.dtype)
    drawn = jax.vmap(lambda word: ravel_pytree(noise.like(wrap(word), like))[0])(words)
    fresh = near(jnp.sqrt(jnp.maximum(1 - gamma**2, 0.0)) * jnp.sqrt(mass)[None] * drawn)
    slope, base_slope = (jax.grad(_ravel(law, like, back)) for law in (path.target, path.base))

    def step(carry, x):
        theta, v = carry
        beta, eta, fresh = x
        half = near(0.5 * eta / mass)
        middle = theta + half * v
        kick = near(eta * blend(beta, slope(middle), base_slope(middle)))
        moved = v + kick
        gain = -tree.dot(kick / mass, v + 0.5 * kick)
        theta, v = middle + half * moved, near(gamma * moved) + fresh
        return (theta, v), (gain, None if backward is None else (theta, v, moved))

    unroll = 1 if jax.default_backend() == "cpu" else UNROLL
    step = jax.checkpoint(step, policy=_is_dear, prevent_cse=False)
    (theta, v), (gain, seen) = lax.scan(step, (theta, v), (beta, eta, fresh), unroll=unroll)
    gain = jnp.sum(gain) if backward is None else jnp.sum(gain) + backward.gain(gamma, mass, beta, *seen)
    return theta, v, add(total, gain)


def _ravel(law, like, back):
    """The log density of a raveled position; independent normals need no way back."""
    if not isinstance(law, Normal):
        return lambda x: law.log_density(back(x))
    mean, scale = (ravel_pytree(_widen(u, like))[0] for u in (law.mean, tree.fill(law.scale, law.mean)))
    return Normal(mean, scale).log_density


def _widen(value, like):
    """A tree of numbers or arrays in the shapes and types of another."""
    return jax.tree.map(lambda v, u: jnp.broadcast_to(v, u.shape).astype(u.dtype), value, like)


def _is_dear(operation, *operands, **_) -> bool:
    """Whether the result of an operation is kept for the gradient: where it costs more to have it again."""
    if operation.name in MATRIX or operation.name not in DEAR or jax.default_backend() != "cpu":
        return operation.name in MATRIX
    return any(u.size >= LARGE and jnp.issubdtype(u.dtype, jnp.inexact) for u in operands)
