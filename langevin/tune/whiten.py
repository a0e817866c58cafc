r"""Scale, noise and step size of SMILE, found while it runs and then frozen.

Halves of every batch give (ĝ₁ − ĝ₂)/2, of mean zero and of the covariance V of ĝ = (ĝ₁ + ĝ₂)/2, signal left out. With
n of N examples in a batch, (n/N) V is near the precision the data give (it is for a well-specified model), so

    D_i = ((n/N) V_ii + κ · prior precision_i)^−½

puts every coordinate on the scale of the posterior if κ = 1. Around a trained network the posterior is narrow and
curved: there κ = 1000, which shortens only directions stiffer than κ times the prior, works better (as in
`tune.fisher`). In its coordinates x = √(n/N) D(ĝ₁ − ĝ₂)/2 the noise has variances of at most one but a few strong
directions: the top k eigenvectors U of C = E[x xᵀ] are followed by a power step a round (Oja's rule with a batch of a
whole round; W' = qr(Σ x (xᵀW))), and their variances λ are found from the next round's samples, which W does not depend
on. Then

    S = D (I + U(Λ − I)Uᵀ),   Λ_j = min(1, λ_j^−½),
    noise: (N/n) λ_j Λ_j² along U_j,   (N/n)(C_ii − Σ_j λ_j U_ij²) off them,

filled up to the level N/n. The step size follows the energy error of probes (`tune.probing`), capped so that kicks stay
below δ = min(½, 2√(n/N)). The last steps adapt ε alone. Every chain has its own: the result is
PerChain(kernel).

References
----------
Oja (1982), A simplified neuron model as a principal component analyzer, eq. (4).
Sommer, Robnik, Rügamer et al. (2026), Can microcanonical Langevin dynamics leverage mini-batch gradient noise?
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree

from langevin.core import sharding, tree
from langevin.core.advance import MAPPED, advance, chains_of
from langevin.core.kernel import PerChain, replace
from langevin.core.rounds import repeat
from langevin.core.target import HasPrior, provides
from langevin.core.types import PyTree, State
from langevin.dynamics.mass import LowRankMetric
from langevin.samplers.smile import SMILE
from langevin.targets.stream import Stream
from langevin.tune.fisher import precision
from langevin.tune.positions import tuner
from langevin.tune.probing import Probing, apart, halved
from langevin.tune.trajectory import needs
from langevin.tune.warm_start import nothing

FIRST = 32  # batches evaluated before the first step


@tuner
def whiten(
    key,
    kernel,
    target,
    states,
    *,
    steps: int = 4000,
    rounds: int = 8,
    rank: int = 16,
    variance: float | tuple[float, float] = (0.5, 0.05),
    share: float | None = None,
    prior: PyTree = None,
    damping: float = 1.0,
    length: float | None = None,
    watch: Callable[[dict], None] | None = None,
) -> tuple[PerChain, State]:
    """The kernel with scale, noise and step size tuned in `steps` steps, each chain its own, and the states it got to.

    share: n/N; None: as the target says. prior: precision of the prior, a tree or a number; None: as the target says.
    damping: κ. length: L in the scaled coordinates; None: √(κd). watch: called after every round with what it found.
    """
    _check(kernel, steps, rounds)
    if not damping > 0:
        raise ValueError(f"whiten: damping is {damping}; it must be positive, 1 or more.")
    d = tree.size(states.position) // chains_of(states)
    share = _share(target) if share is None else share
    if not 0 < share <= 1:
        raise ValueError(f"whiten: share is {share}; a batch is more than none and at most all of the data.")
    if prior is None and not provides(target, HasPrior):
        raise ValueError("whiten: the target does not tell its prior apart; give prior= its precision.")
    k_first, *keys = jax.random.split(key, rounds + 2)
    begin, end = variance if isinstance(variance, tuple) else (variance, variance)
    curvature = damping * (_precision(target, states) if prior is None else _flat(prior, states))
    frozen = replace(kernel, length=float(np.sqrt(damping * d)) if length is None else length)
    here = sharding.gathered((k_first, frozen, target, states, curvature))
    probing, states = _beside(_opened(*here, share, min(rank, d - 1), begin), states)
    last = max(steps // 5, 1)
    each = max((steps - last) // rounds, 1)

    def one(i: int, seeking: PerChain, states: State) -> tuple[PerChain, State]:
        wanted = begin + (end - begin) * min(i / max(rounds - 1, 1), 1.0)
        probing = replace(seeking.kernel, variance=jnp.full(chains_of(states), wanted))
        n = each if i < rounds else last
        out = advance(
            keys[i], PerChain(probing), target, states, length=max(each, last), n=np.int32(n), collect=nothing
        )
        if watch is not None:
            watch(_told(out.states, n))
        if i == rounds:
            return PerChain(probing), out.states
        revised = _revised(*sharding.gathered((probing, out.states, curvature)))
        probing, states = _beside(revised, out.states)
        return PerChain(probing), states

    seeking, states = repeat(one, PerChain(probing), states, target, rounds=rounds + 1)
    probing = seeking.kernel
    tuned = jax.vmap(lambda p, m: replace(p.kernel, step_size=p.capped(m[1])))(probing, states.memory)
    return PerChain(tuned), states._replace(memory=())


def _beside(found: tuple[Probing, State], states: State) -> tuple[Probing, State]:
    """What one device found, split over devices as these states are.

    Matrices are decomposed on one device: XLA's CPU client may wait for itself where several do so in one program.
    """
    return sharding.beside(found[0], states), sharding.beside(found[1], states)


@partial(jax.jit, static_argnames="rank")
def _opened(key, kernel, target, states, precision, share, rank, variance):
    """The first scale of every chain, from batches at its start, and the states to seek from."""
    chains = chains_of(states)

    def one(key, state, precision):
        impl = jax.random.key_impl(key)

        def one_batch(word):
            batch, _ = target.draw(jax.random.wrap_key_data(word, impl=impl), state.feed)
            return apart(halved(target, batch, state.position))

        x = lax.map(one_batch, jax.random.key_data(jax.random.split(key, max(FIRST, rank)))) * jnp.sqrt(share)
        D = _scale(jnp.mean(x**2, 0), precision)
        x = x * D[None]
        W = jnp.linalg.qr(x[:rank].T)[0]
        scaled = _with(kernel, D, W, jnp.ones(rank), jnp.mean(x**2, 0), share, state.position)
        probing = Probing(
            scaled, D, W, jnp.asarray(share), jnp.asarray(variance), jnp.minimum(0.5, 2 * jnp.sqrt(share))
        )
        return probing, probing.adopt(state)

    return jax.vmap(one, (0, MAPPED, 0), (0, MAPPED))(jax.random.split(key, chains), states, precision)


@jax.jit
def _revised(probing, states, precision):
    """Every chain's scale and noise from what it saw; what it watches next; its sums begun anew."""

    def one(probing, state, precision):
        seen, sought = state.memory
        n = jnp.maximum(seen.total, 1.0)
        square, D = seen.square / n, probing.scale
        values, turn = jnp.linalg.eigh(seen.gram / n)
        U = probing.watched @ turn
        scaled = _with(probing.kernel, D, U, values, square, probing.share, state.position)
        # the step keeps its length in θ where the scale has changed
        before, after = _size(probing.kernel.metric), _size(scaled.metric)
        sought = sought._replace(step_size=sought.step_size * before / after, most=jnp.full((), jnp.inf))
        new = _scale(square / D**2, precision)
        W = jnp.linalg.qr((new / D)[:, None] * seen.product / n)[0]
        fresh = replace(probing, kernel=scaled, scale=new, watched=W)
        begun = fresh.adopt(state).memory[0]
        return fresh, state._replace(memory=(begun, sought._replace(weighted=0.0 * n, weights=0.0 * n)))

    return jax.vmap(one, (0, MAPPED, 0), (0, MAPPED))(probing, states, precision)


def _with(kernel, D, U, values, square, share, position):
    """The kernel with S = D(I + U(Λ − I)Uᵀ) and the noise that is left."""
    stretch = jnp.minimum(1.0, jax.lax.rsqrt(jnp.maximum(values, 1e-12)))
    # off the spikes R is P diag(rest) P, P = I − UUᵀ, which has less on its diagonal than `rest`
    rest = jnp.maximum(square - (U**2) @ values, 0.0) / jnp.maximum(1 - jnp.sum(U**2, axis=1), 1e-3)
    metric = LowRankMetric(ravel_pytree(position)[1](D), U, stretch)
    noise = dict(gradient_noise=rest / share, spikes=values * stretch**2 / share, level=1.0 / share)
    like = jax.tree.map(jnp.asarray, kernel)
    return replace(like, metric=metric, **noise)


def _scale(square, precision):
    total = square + precision
    return jax.lax.rsqrt(jnp.maximum(total, 1e-6 * jnp.mean(total)))


def _size(metric: LowRankMetric):
    return jnp.sqrt(tree.dot(metric.scale, metric.scale))


def _share(target) -> float:
    if not isinstance(target, Stream) or target.batch is None:
        raise ValueError("whiten: the target does not say what share of the data a batch is; give share=.")
    return target.batch / target.n


@jax.jit
def _precision(target, states):
    """Of the prior, for every chain; (chain, d)."""
    return jax.vmap(partial(precision, target))(states.position)


def _flat(prior, states):
    one = jax.tree.map(lambda u: u[0], states.position)
    flat = ravel_pytree(jax.tree.map(lambda p, u: jnp.broadcast_to(p, u.shape), tree.fill(prior, one), one))[0]
    return jnp.broadcast_to(flat, (chains_of(states), flat.size)).astype(jnp.float32)


def _told(states: State, n: int) -> dict:
    _, sought = states.memory
    return dict(step_size=np.asarray(sought.step_size), reset_rate=np.asarray(sought.undone) / n)


def _check(kernel, steps: int, rounds: int) -> None:
    if not isinstance(kernel, SMILE):
        raise TypeError(f"whiten: it tunes SMILE, not {type(kernel).__name__}; pass SMILE(step_size).")
    needs("whiten", kernel, ("step_size", "length", "temperature"))
    if steps < 2 * rounds or rounds < 1:
        raise ValueError(f"whiten: {steps} steps in {rounds} rounds; take at least two steps a round.")
