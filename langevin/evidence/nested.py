r"""Nested sampling, by BlackJAX's nested slice sampler.

With base q as the prior and L = p̃/q as the likelihood, Z = ∫_0^1 L(X) dX over the prior mass X(λ) = q{L > λ}. n points
drawn from q climb: the worst die, are replaced by slice moves that stay above the worst, and X shrinks by about 1/n at
each death. Z is the sum of L over deaths times the shrunken mass; the unknown shrinkages are simulated, and their
spread is the standard error, about √(KL(p‖q)/n). It does not see the other error: slice moves too few to forget where
they began make Z too large, in high dimension by much and without a sign.

References
----------
Skilling (2006), Nested sampling for general Bayesian computation.
Yallup, Kroupa & Handley (2026), Nested slice sampling (BlackJAX's `nss`).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from langevin.core import tree
from langevin.core.types import Key
from langevin.evidence.base import Base, began, examples
from langevin.evidence.types import Evidence

LENGTH = 20  # deaths of a batch in one compiled program
SIMULATED = 200  # shrinkages
LAST = 10_000  # programs, before it is said that nothing ends


def nested(
    key: Key, target: Any, base: Base, *, live: int = 500, moves: int | None = None, rest: float = 1e-3
) -> Evidence:
    """log Z by nested slice sampling: consistent as points and moves grow.

    live: n, points that climb. moves: slice moves of a new point; None for twice the dimension, 5 at least. rest: the
    share of Z that may be left among the living at the end.
    """
    utils = _import()
    k_start, k_init, k_run, k_shrink = jax.random.split(key, 4)
    start = began(k_start, base, target, live)
    d = tree.size(start) // live
    how = dict(moves=moves or max(5, 2 * d), delete=max(1, live // 20))
    state = _begun(k_init, target, base, start, **how)
    dead, cost = [], 0
    for i in range(LAST):
        state, here, looks = _deaths(jax.random.fold_in(k_run, i), target, base, state, **how)
        dead.append(here)
        cost += int(looks)
        within = state.integrator
        if float(within.logZ_live) - float(jnp.logaddexp(within.logZ, within.logZ_live)) < np.log(rest):
            break
    else:
        raise ValueError(f"nested: no end after {LAST * LENGTH} batches of deaths; is the log density bounded above?")
    everyone = utils.finalise(state, dead, update_info=False)
    log_w = np.asarray(utils.log_weights(k_shrink, everyone, shape=SIMULATED), np.float64)
    log_z = np.asarray(logsumexp(log_w - log_w.max(), axis=0), np.float64) + log_w.max()
    mean = log_w.mean(1)
    ess = np.exp(2 * logsumexp(mean - mean.max()) - logsumexp(2 * (mean - mean.max())))
    spent = dict(n_grad=cost, n_data=cost * examples(target))
    return Evidence(np.asarray(log_z.mean()), log_z.std(ddof=1), ess=ess, guarantee="consistent", **spent)


def _import():
    try:
        import blackjax
    except ImportError:
        raise ImportError("nested sampling needs BlackJAX: pip install 'langevin[blackjax]'.") from None
    if not hasattr(blackjax, "nss"):
        raise ImportError(f"nested sampling needs BlackJAX 1.7 or later, and {blackjax.__version__} is installed.")
    from blackjax.ns import utils

    return utils


def _sampler(target, base, moves, delete):
    from blackjax import nss

    likelihood = lambda x: target.log_density(x) - base.log_density(x)
    return nss(base.log_density, likelihood, num_inner_steps=moves, num_delete=delete)


@partial(jax.jit, static_argnames=("moves", "delete"))
def _begun(key, target, base, start, *, moves, delete):
    return _sampler(target, base, moves, delete).init(start, rng_key=key)


@partial(jax.jit, static_argnames=("moves", "delete"))
def _deaths(key, target, base, state, *, moves, delete):
    """LENGTH batches of deaths: the living, the dead, and how often the target was looked at."""
    step = _sampler(target, base, moves, delete).step
    state, info = jax.lax.scan(lambda s, k: step(k, s), state, jax.random.split(key, LENGTH))
    flat = info._replace(update_info=None)
    flat = jax.tree.map(lambda u: u.reshape(LENGTH * delete, *u.shape[2:]), flat)
    tried = info.update_info
    looks = jnp.sum(tried.num_expansions + tried.num_shrink + 2)  # both ends of a slice are looked at first
    return state, flat, looks
