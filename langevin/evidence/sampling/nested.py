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

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from langevin.core import tree
from langevin.core.record import static
from langevin.evidence.base import draw_starts
from langevin.evidence.method import Method, method
from langevin.evidence.types import Evidence, cost

LENGTH = 20  # deaths of a batch in one compiled program
SIMULATED = 200  # shrinkages
LAST = 10_000  # such programs at most


@method("nested")
class Nested(Method):
    """Nested slice sampling (BlackJAX): consistent as points and moves grow.

    live: n, points that climb.
    moves: slice moves of a new point; None for twice the dimension, 5 at least.
    rest: the share of Z that may be left among the live points at the end.
    """

    live: int = static(default=500)
    moves: int | None = static(default=None)
    rest: float = 1e-3
    minibatches = "ignored"

    def estimate_evidence(self, key, target, base, draws) -> Evidence:
        utils = _import()
        k_start, k_init, k_run, k_shrink = jax.random.split(key, 4)
        start = draw_starts(k_start, base, target, self.live)
        d = tree.size(start) // self.live
        how = dict(moves=self.moves or max(5, 2 * d), delete=max(1, self.live // 20))
        state = _begin(k_init, target, base, start, **how)
        dead, n_eval = [], 0
        for i in range(LAST):
            state, here, n = _replace_worst(jax.random.fold_in(k_run, i), target, base, state, **how)
            dead.append(here)
            n_eval += int(n)
            within = state.integrator
            if float(within.logZ_live) - float(jnp.logaddexp(within.logZ, within.logZ_live)) < np.log(self.rest):
                break
        else:
            raise ValueError(
                f"nested: no end after {LAST * LENGTH} batches of deaths; check that the log density is bounded above."
            )
        everyone = utils.finalise(state, dead, update_info=False)
        log_w = np.asarray(utils.log_weights(k_shrink, everyone, shape=SIMULATED), np.float64)
        log_z = np.asarray(logsumexp(log_w - log_w.max(), axis=0), np.float64) + log_w.max()
        mean = log_w.mean(1)
        ess = np.exp(2 * logsumexp(mean - mean.max()) - logsumexp(2 * (mean - mean.max())))
        found = np.asarray(log_z.mean()), log_z.std(ddof=1)
        return Evidence(*found, ess=ess, guarantee="consistent", **cost(n_eval, target))


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
def _begin(key, target, base, start, *, moves, delete):
    return _sampler(target, base, moves, delete).init(start, rng_key=key)


@partial(jax.jit, static_argnames=("moves", "delete"))
def _replace_worst(key, target, base, state, *, moves, delete):
    """LENGTH batches of deaths: the live points, the dead, and how often the target was evaluated."""
    step = _sampler(target, base, moves, delete).step
    state, info = jax.lax.scan(lambda s, k: step(k, s), state, jax.random.split(key, LENGTH))
    flat = info._replace(update_info=None)
    flat = jax.tree.map(lambda u: u.reshape(LENGTH * delete, *u.shape[2:]), flat)
    tried = info.update_info
    # both ends of a slice are evaluated first
    return state, flat, jnp.sum(tried.num_expansions + tried.num_shrink + 2)
