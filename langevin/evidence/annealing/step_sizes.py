r"""Step sizes of the kernels that annealing uses, as a function of β, from a pilot run.

A pilot is a few particles on a coarse ladder with a key of their own. At a rung log h moves with the acceptance of all
of them together; the rung above begins where it ended. The step sizes are then frozen as a function of β, log h
interpolated over log β, so that the weights of the chains that follow stay valid.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core.advance import MAPPED, advance, chains_of
from langevin.core.begin import begin_all
from langevin.core.kernel import PerChain, Wrapper, innermost, refresh, replace
from langevin.core.record import record
from langevin.core.types import Info, Key, PyTree, State
from langevin.evidence.base import check_base, draw
from langevin.samplers.hmc import HMC
from langevin.tune.warm_start import nothing

PILOTS = 32  # particles
MARKS = 16  # rungs at which a step size is tuned
USUAL = HMC(n_leapfrog=3, jitter=0.5)  # jitter: orbits of one length come back to where they were on a Gaussian


@record
class InterpolatedStep(Wrapper):
    """A kernel whose step size is a function of β: log h is interpolated over log β.

    kernel: the kernel.
    beta: where h is known, rising, (n,).
    step_size: h there, (n,).
    """

    kernel: Any
    beta: Any
    step_size: Any

    def step(self, key, state, target):
        x = jnp.log(jnp.maximum(target.beta, self.beta[0]))
        h = jnp.exp(jnp.interp(x, jnp.log(self.beta), jnp.log(self.step_size)))
        return replace(self.kernel, step_size=h).step(key, state, target)


def choose_kernel(key: Key, kernel: Any, path: Any, beta: np.ndarray) -> tuple[Any, int]:
    """The kernel given, or HMC with step sizes from a pilot; and how many gradients that took."""
    return (kernel, 0) if kernel is not None else tune_steps(key, USUAL, path, beta)


def tune_steps(
    key: Key, kernel: Any, path: Any, beta: np.ndarray, *, acceptance: float = 0.8
) -> tuple[InterpolatedStep, int]:
    """The kernel with a step size for every β at which it accepts at that rate; and how many gradients that took."""
    k_start, k_climb = jax.random.split(key)
    marks = beta[np.unique(np.linspace(1, len(beta) - 1, MARKS).round().astype(int))]
    start = draw(k_start, check_base(path.base), PILOTS)
    h, _, n_grad = run_pilot(k_climb, kernel, path, marks, start, acceptance=acceptance)
    return InterpolatedStep(kernel, marks, h.astype(beta.dtype)), n_grad


def run_pilot(
    key: Key, kernel: Any, path: Any, beta: np.ndarray, start: PyTree, *, acceptance: float | None
) -> tuple[np.ndarray, list[PyTree], int]:
    """Particles that climb slowly: the step size and the positions at every rung, and how many gradients it took.

    At a rung log h moves with the acceptance of all particles together, by less from round to round, and begins where
    the rung below ended. acceptance: the rate wanted; None to leave the kernel as it is.
    """
    k_init, k_climb = jax.random.split(key)
    states = begin_all(k_init, kernel, path.at(0.0), start)
    log_h = 0.0 if acceptance is None else float(np.log(kernel.step_size))
    h, kept, n_grad = [], [], 0
    for i, b in enumerate(beta):
        k_refresh, *keys = jax.random.split(jax.random.fold_in(k_climb, i), 7 if i else 25)
        there = path.at(b)
        states = _refresh(k_refresh, states, there)
        for r, k in enumerate(keys):
            now = kernel if acceptance is None else replace(kernel, step_size=np.exp(log_h))
            out = advance(k, now, there, states, length=5, collect=nothing)
            states, n_grad = out.states, n_grad + count_grads(out.info)
            if acceptance is not None:
                excess = (float(np.mean(out.info.acceptance)) - acceptance) / (1 - acceptance)
                log_h += 0.5 / (1 + r / 4) * max(excess, -2.0)
        h.append(np.exp(log_h))
        kept.append(states.position)
    return np.asarray(h), kept, n_grad


@jax.jit
def _refresh(key, states: State, target) -> State:
    return jax.vmap(refresh, (0, MAPPED, None), MAPPED)(jax.random.split(key, chains_of(states)), states, target)


def count_grads(info: Info) -> int:
    """Gradients of all chains together."""
    return int(np.asarray(info.n_grad, np.int64).sum())


def check_kernel(kernel: Any) -> None:
    """Refuse a kernel whose stationary distribution is not the target: the weights would not be valid; None passes."""
    if kernel is None:
        return
    if isinstance(kernel, PerChain) or kernel.group > 1:
        raise ValueError(f"evidence: {type(kernel).__name__} does not move single chains; take HMC, GHMC or MALA.")
    law, inner = kernel.law(), innermost(kernel)
    T = inner.temperature if "temperature" in {f.name for f in dataclasses.fields(inner)} else 1.0
    if law.kind != "exact" or callable(T) or float(T) != 1.0:
        words = law.words if law.kind != "exact" else f"p^(1/T) with T = {T}"
        raise ValueError(
            f"evidence: the stationary distribution of {type(kernel).__name__} is {words}, not that of a rung, and the "
            "weights would not be valid; take HMC, GHMC or MALA at temperature 1."
        )
