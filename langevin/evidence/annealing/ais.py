r"""Annealed importance sampling: an unbiased estimate of Z from chains that climb from base to target.

On the path f_β = q^{1−β} p̃^β with a ladder 0 = β_0 < … < β_K = 1 a chain starts at θ_0 ~ q and, for k = 1 … K,

    W ← W + (β_k − β_{k−1}) u(θ_{k−1}),   u = log p̃ − log q,        then    θ_k ~ T_k(θ_{k−1}),

T_k a kernel that leaves f_{β_k} as it is. E e^W = Z for every ladder, so the log of a mean of weights is a lower bound
on average. Nothing may be learned from the chains themselves: step sizes come from a pilot (`step_sizes`), a few
particles on a coarse ladder with a key of their own, and are then frozen as a function of β. `HAIS` uses GHMC.

`Reverse` goes down the same ladder from exact draws of p: E e^{−W} = 1/Z, so −log mean e^{−W} is an upper bound.

Digits: log p̃ may be −10⁴, of which float32 knows 10⁻³, and the difference of two log f at the same θ would lose that
much at every rung. Here a rung evaluates u once and multiplies it by the small β_k − β_{k−1}; these products, of
relative error 10⁻⁷, are summed in float64 on the host, and log_z comes back in float64.

References
----------
Neal (2001), Annealed importance sampling, §2.
Sohl-Dickstein & Culpepper (2012), Hamiltonian annealed importance sampling for partition function estimation.
Grosse, Ghahramani & Adams (2015), Sandwiching the marginal likelihood using bidirectional Monte Carlo (`Reverse`).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import progress
from langevin.core.advance import advance, chains_of
from langevin.core.begin import begin_all
from langevin.core.kernel import Wrapper, replace
from langevin.core.record import record, static
from langevin.core.types import Eval, Key, PyTree
from langevin.evidence.annealing.ladder import to_host_ladder
from langevin.evidence.annealing.step_sizes import check_kernel, choose_kernel, count_grads, tune_steps
from langevin.evidence.base import draw_starts
from langevin.evidence.method import Method, method
from langevin.evidence.types import Evidence, cost
from langevin.evidence.weights import average
from langevin.samplers.ghmc import GHMC
from langevin.samplers.wrappers.thin import Thin
from langevin.targets.path import Geometric
from langevin.targets.tempered import blend, times
from langevin.tune.warm_start import nothing

CHUNK = 512  # rungs in one compiled program at most; ladders of other lengths share it


@method("ais")
class AIS(Method):
    """Annealed importance sampling: unbiased-Z.

    ladder: the rungs, or how many.
    kernel: an exact kernel, used as it is; None for HMC with step sizes from a pilot.
    particles: chains.
    thin: steps of the kernel at each rung.
    """

    ladder: Any = static(default=1000)
    kernel: Any = None
    particles: int = static(default=200)
    thin: int = static(default=1)

    def __post_init__(self):
        if self.particles < 1 or self.thin < 1:
            raise ValueError(f"ais: {self.particles} particles and {self.thin} steps a rung; take one or more of each.")
        check_kernel(self.kernel)

    def estimate_evidence(self, key, target, base, draws) -> Evidence:
        k_pilot, k_start, k_climb = jax.random.split(key, 3)
        beta, path = to_host_ladder(self.ladder), Geometric(base, target)
        start = draw_starts(k_start, base, target, self.particles)
        kernel, spent = choose_kernel(k_pilot, self.kernel, path, beta)
        log_w, n_grad = anneal(k_climb, kernel, path, start, beta, thin=self.thin)
        log_z, error, ess = average(log_w)
        spending = cost(n_grad + spent, target)
        return Evidence(log_z, error, lower=log_z, ess=ess, guarantee="unbiased-Z", **spending)


@method("hais")
class HAIS(Method):
    """AIS whose momentum persists: one leapfrog step at each rung; unbiased-Z.

    ladder: the rungs, or how many.
    gamma: γ, the share of the momentum that a step keeps.
    particles: chains.
    thin: steps at each rung.
    """

    ladder: Any = static(default=1000)
    gamma: float = 0.9
    particles: int = static(default=200)
    thin: int = static(default=1)

    def estimate_evidence(self, key, target, base, draws) -> Evidence:
        k_pilot, k_climb = jax.random.split(key)
        path, beta = Geometric(base, target), to_host_ladder(self.ladder)
        # rejections turn the momentum around, so there should be few
        kernel, n_grad = tune_steps(k_pilot, GHMC(gamma=self.gamma), path, beta, acceptance=0.9)
        found = AIS(self.ladder, kernel, self.particles, self.thin).estimate_evidence(k_climb, target, base, draws)
        return replace(found, **cost(found.n_grad + n_grad, target))


@method("reverse")
class Reverse(Method):
    """Reverse AIS, from exact draws (draw, …) of the target down to the base: upper.

    Chains of one draw are not independent: the standard error is that of the means by draw, and with a single draw it
    leaves out what that draw adds.

    ladder: the rungs, or how many.
    kernel: an exact kernel, used as it is; None for HMC with step sizes from a pilot.
    particles: chains, shared out among the draws; None for one each.
    thin: steps of the kernel at each rung.
    """

    ladder: Any = static(default=1000)
    kernel: Any = None
    particles: int | None = static(default=None)
    thin: int = static(default=1)
    needs_draws = True

    def __post_init__(self):
        check_kernel(self.kernel)

    def estimate_evidence(self, key, target, base, draws) -> Evidence:
        k_pilot, k_climb = jax.random.split(key)
        beta, path = to_host_ladder(self.ladder), Geometric(base, target)
        n = len(jax.tree.leaves(draws)[0])
        each = -(-(self.particles or n) // n)
        start = jax.tree.map(lambda u: np.repeat(np.asarray(u), each, axis=0), draws)
        kernel, spent = choose_kernel(k_pilot, self.kernel, path, beta)
        # a first move at β = 1 parts the chains of one draw
        down = np.concatenate([np.ones(1, beta.dtype), beta[::-1]])
        log_w, n_grad = anneal(k_climb, kernel, path, start, down, thin=self.thin)
        value, error, ess = average(log_w, each if n > 1 else 1)
        return Evidence(-value, error, upper=-value, ess=ess, guarantee="upper", **cost(n_grad + spent, target))


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
        k_draw, k_step = jax.random.split(key)
        k = state.count - self.first
        before, beta = self.beta[k], self.beta[k + 1]
        there = target.at(beta)
        batch, feed = there.draw(k_draw, state.feed)
        q, p = there.base.evaluate(batch[0], state.position), there.target.evaluate(batch[1], state.position)
        gain = times(beta - before, p.log_density - q.log_density)
        value, grad = jax.tree.map(lambda u, v: blend(beta, u, v), (p.log_density, p.grad), (q.log_density, q.grad))
        here = Eval(value, grad, p.n_data + q.n_data)
        new, info = self.kernel.step(k_step, state._replace(eval=here, feed=feed), there)
        info = info._replace(log_weight=gain.astype(jnp.float32), n_grad=info.n_grad + 1)
        return new._replace(count=state.count + 1), info._replace(n_data=info.n_data + here.n_data)


def anneal(
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
        n_grad += count_grads(out.info)
        progress.tell(min(done + length, K), K)
    return log_w, n_grad
