r"""Annealed importance sampling: an unbiased estimate of Z from chains that climb from base to target.

On the path f_β = q^{1−β} p̃^β with a ladder 0 = β_0 < … < β_K = 1 a chain starts at θ_0 ~ q and, for k = 1 … K,

    W ← W + (β_k − β_{k−1}) u(θ_{k−1}),   u = log p̃ − log q,        then    θ_k ~ T_k(θ_{k−1}),

T_k a kernel that leaves f_{β_k} as it is. E e^W = Z for every ladder, so the log of a mean of weights is a lower bound
on average. Nothing may be learned from the chains themselves: step sizes come from a pilot (`piloted`), a few particles
on a coarse ladder with a key of their own, and are then frozen as a function of β. `hais` has GHMC for its kernel.

`reverse` goes down the same ladder from exact draws of p: E e^{−W} = 1/Z, so −log mean e^{−W} is an upper bound.

Digits: log p̃ may be −10⁴, of which float32 knows 10⁻³, and the difference of two log f at the same θ would lose that
much at every rung. Here a rung evaluates u once and multiplies it by the small β_k − β_{k−1}; these products, of
relative error 10⁻⁷, are summed in float64 on the host, and log_z comes back in float64.

References
----------
Neal (2001), Annealed importance sampling, §2.
Sohl-Dickstein & Culpepper (2012), Hamiltonian annealed importance sampling for partition function estimation.
Grosse, Ghahramani & Adams (2015), Sandwiching the marginal likelihood using bidirectional Monte Carlo (`reverse`).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core.advance import advance, chains_of
from langevin.core.kernel import Wrapper, replace
from langevin.core.record import record
from langevin.core.run import begin_all
from langevin.core.types import Eval, Key, PyTree
from langevin.evidence.base import Base, began, examples
from langevin.evidence.ladder import rungs
from langevin.evidence.pilot import chosen, grads_in, piloted, usable
from langevin.evidence.types import Evidence
from langevin.evidence.weights import checked as weighed
from langevin.samplers.ghmc import GHMC
from langevin.samplers.wrappers.thin import Thin
from langevin.targets.path import Geometric
from langevin.targets.tempered import blend, times
from langevin.tune.warm_start import nothing

CHUNK = 512  # rungs in one compiled program at most; ladders of other lengths share it


def ais(
    key: Key, target: Any, base: Base, *, ladder: Any = 1000, kernel: Any = None, particles: int = 200, thin: int = 1
) -> Evidence:
    """log Z by chains that climb from base to target: unbiased-Z.

    ladder: rungs, or how many. kernel: exact, taken as it is; None for HMC with a pilot. thin: steps at each rung.
    """
    usable(target, base, kernel)
    if particles < 1 or thin < 1:
        raise ValueError(f"ais: {particles} particles and {thin} steps a rung; take one or more of each.")
    k_pilot, k_start, k_climb = jax.random.split(key, 3)
    beta, path = steps(ladder), Geometric(base, target)
    start = began(k_start, base, target, particles)
    kernel, spent = chosen(k_pilot, kernel, path, beta)
    log_w, n_grad = annealed(k_climb, kernel, path, start, beta, thin=thin)
    n_grad += spent
    log_z, error, ess = averaged(log_w)
    how = dict(ess=ess, n_grad=n_grad, n_data=n_grad * examples(target), guarantee="unbiased-Z")
    return Evidence(log_z, error, lower=log_z, **how)


def hais(
    key: Key, target: Any, base: Base, *, ladder: Any = 1000, gamma: float = 0.9, particles: int = 200, thin: int = 1
) -> Evidence:
    """AIS whose momentum persists: one leapfrog step a rung, which keeps the share gamma of it; unbiased-Z."""
    usable(target, base)
    k_pilot, k_climb = jax.random.split(key)
    path = Geometric(base, target)
    # rejections turn the momentum around, so there should be few
    kernel, n_grad = piloted(k_pilot, GHMC(gamma=gamma), path, steps(ladder), acceptance=0.9)
    found = ais(k_climb, target, base, ladder=ladder, kernel=kernel, particles=particles, thin=thin)
    return replace(found, n_grad=found.n_grad + n_grad, n_data=found.n_data + n_grad * examples(target))


def reverse(
    key: Key,
    target: Any,
    base: Base,
    draws: PyTree,
    *,
    ladder: Any = 1000,
    kernel: Any = None,
    particles: int | None = None,
    thin: int = 1,
) -> Evidence:
    """log Z from above, by chains that go down from exact draws (draw, …) of the target: upper.

    particles: chains, shared out among the draws; None for one each. Chains of one draw are not independent: the
    standard error is that of the means by draw, and with a single draw it leaves out what that draw adds.
    """
    usable(target, base, kernel)
    k_pilot, k_climb = jax.random.split(key)
    beta, path = steps(ladder), Geometric(base, target)
    n = len(jax.tree.leaves(draws)[0])
    each = -(-(particles or n) // n)
    start = jax.tree.map(lambda u: np.repeat(np.asarray(u), each, axis=0), draws)
    kernel, spent = chosen(k_pilot, kernel, path, beta)
    # a first move at β = 1 parts the chains of one draw
    down = np.concatenate([np.ones(1, beta.dtype), beta[::-1]])
    log_w, n_grad = annealed(k_climb, kernel, path, start, down, thin=thin)
    n_grad += spent
    log_w, error, ess = averaged(log_w, each if n > 1 else 1)
    how = dict(ess=ess, n_grad=n_grad, n_data=n_grad * examples(target), guarantee="upper")
    return Evidence(-log_w, error, upper=-log_w, **how)


def averaged(log_w: np.ndarray, each: int = 1) -> tuple[np.ndarray, float, float]:
    """log mean w, its standard error and the ESS, in float64; every `each` weights in a row count as one."""
    weighed(jnp.asarray(log_w))
    w = np.exp(log_w - log_w.max())
    rows = w.reshape(-1, each).mean(1)
    error = np.inf if len(rows) < 2 else rows.std(ddof=1) / rows.mean() / np.sqrt(len(rows))
    return np.asarray(log_w.max() + np.log(w.mean())), error, w.sum() ** 2 / (w**2).sum()


def steps(ladder: Any) -> np.ndarray:
    """The rungs, on the host, where they are cut and turned around."""
    return np.asarray(rungs(ladder), jax.dtypes.canonicalize_dtype(float))


# --- climbing -------------------------------------------------------------------------------------------------------


@record
class Climbing(Wrapper):
    """One rung a step: the weight of going from β_{k−1} to β_k, then a step of the kernel at β_k; `count` counts rungs.

    kernel: a kernel that is exact at every β.
    beta: a stretch of the rungs, in the order of climbing.
    first: which of all rungs is the first of the stretch.
    """

    kernel: Any
    beta: Any
    first: int = 0

    def init(self, key, position, target):
        return self.kernel.init(key, position, target.at(self.beta[0]))

    def step(self, key, state, target):
        k_look, k_step = jax.random.split(key)
        k = state.count - self.first
        before, beta = self.beta[k], self.beta[k + 1]
        there = target.at(beta)
        batch, feed = there.draw(k_look, state.feed)
        q, p = there.base.evaluate(batch[0], state.position), there.target.evaluate(batch[1], state.position)
        gain = times(beta - before, p.log_density - q.log_density)
        value, grad = jax.tree.map(lambda u, v: blend(beta, u, v), (p.log_density, p.grad), (q.log_density, q.grad))
        here = Eval(value, grad, p.n_data + q.n_data)
        new, info = self.kernel.step(k_step, state._replace(eval=here, feed=feed), there)
        info = info._replace(log_weight=gain.astype(jnp.float32), n_grad=info.n_grad + 1)
        return new._replace(count=state.count + 1), info._replace(n_data=info.n_data + here.n_data)


def annealed(
    key: Key, kernel: Any, path: Any, start: PyTree, beta: np.ndarray, *, thin: int = 1
) -> tuple[np.ndarray, int]:
    """Log weights in float64, one a chain, of going along β from `start`; and how many gradients it took."""
    k_init, k_run = jax.random.split(key)
    kernel = kernel if thin == 1 else Thin(kernel, thin)
    states = begin_all(k_init, Climbing(kernel, beta[:1]), path, start)
    if jax.tree.leaves(states.memory):
        raise ValueError(
            f"evidence: {type(kernel).__name__} keeps numbers of its own from step to step, which the next rung makes "
            "stale; take HMC, GHMC or MALA."
        )
    K = len(beta) - 1
    length = min(CHUNK, max(64, 1 << (K - 1).bit_length()))
    beta = np.concatenate([beta, np.repeat(beta[-1:], -K % length)])
    log_w, n_grad = np.zeros(chains_of(states)), 0
    for done in range(0, K, length):
        # the key of a rung folds in its number, so the same key serves every chunk
        climbing, n = Climbing(kernel, beta[done : done + length + 1], done), np.int32(min(length, K - done))
        out = advance(jax.random.clone(k_run), climbing, path, states, length=length, n=n, collect=nothing)
        states = out.states
        log_w += np.asarray(out.info.log_weight, np.float64).sum(1)
        n_grad += grads_in(out.info)
    return log_w, n_grad
