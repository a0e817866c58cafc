r"""Bridge sampling: log Z from posterior draws and draws of a proposal fitted to them.

With n₁ draws of the posterior, n₂ of a normalised proposal g, l = p̃/g and s_i = n_i/(n₁ + n₂), r = Z is the fixed point

    r ← [ (1/n₂) Σ_{θ ~ g} l/(s₁ l + s₂ r) ] / [ (1/n₁) Σ_{θ ~ p} 1/(s₁ l + s₂ r) ],

which is the bridge of least error. The first half of every chain fits a Gaussian g, the second half enters, so that
fit and estimate do not share draws; n₁ in s₁ is the effective number of those. With posterior p = p̃/Z the relative
error is

    RE² = Var_g(f₁)/(n₂ E²f₁) + Var_p(f₂)/(ESS(f₂) E²f₂),      f₁ = p/(s₁p + s₂g),   f₂ = g/(s₁p + s₂g),

and RE is the standard error of log Z. It is small where g and p overlap.

References
----------
Meng & Wong (1996), Simulating ratios of normalizing constants via a simple identity, eq. (4.1).
Gronau et al. (2017), A tutorial on bridge sampling (the halves, the effective number, the error).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from langevin.core import moments
from langevin.core.record import record
from langevin.core.target import Exact
from langevin.core.types import Key, PyTree
from langevin.evidence.base import draw, log_ratios
from langevin.evidence.method import Method, method
from langevin.evidence.types import Evidence, cost
from langevin.targets.zoo import Gaussian

ROUNDS = 1000


@method("bridge")
class Bridge(Method):
    """Bridge sampling from posterior draws (chain, draw, …): consistent. The base is not used.

    proposal: a normalised distribution with draws; None fits a Gaussian to one half of the draws.
    """

    proposal: Any = None
    minibatches = "ignored"
    needs_base = False
    needs_draws = True

    def estimate_evidence(self, key, target, base, draws) -> Evidence:
        chains, n = np.shape(jax.tree.leaves(draws)[0])[:2]
        if n < 8:
            raise ValueError(f"bridge: {n} draws a chain are too few to judge their correlation; take 8 or more.")
        proposal, half = self.proposal, 0
        if proposal is None:
            half = n // 2
            proposal = fit_gaussian(jax.tree.map(lambda u: u[:, :half], draws))
        rest = jax.tree.map(lambda u: jnp.asarray(u)[:, half:].reshape(chains * (n - half), *np.shape(u)[2:]), draws)
        n1 = n2 = chains * (n - half)
        at_draws = np.asarray(log_ratios(target, proposal, rest), np.float64)
        at_proposal = np.asarray(log_ratios(target, proposal, draw(key, proposal, n2)), np.float64)
        if not np.isfinite(at_draws).all() or np.isnan(at_proposal).any():
            raise ValueError(
                "bridge: the log density of the target is not finite at posterior draws, or NaN at draws of the "
                "proposal; check that the draws are those of this target, on its own scale."
            )
        at_draws = at_draws.reshape(chains, n - half)
        ess = effective_number(at_draws)
        log_r, error = solve(at_draws, at_proposal, ess)
        return Evidence(np.asarray(log_r), error, ess=ess, guarantee="consistent", **cost(n1 + n2, target))


def solve(at_draws: np.ndarray, at_proposal: np.ndarray, effective: float) -> tuple[float, float]:
    """log r of the fixed point, and its error.

    at_draws: log l at posterior draws (chain, draw). at_proposal: at draws of the proposal (draw,).
    """
    centre = np.median(at_draws)
    one, two = np.exp(at_draws - centre), np.exp(at_proposal - centre)
    n2 = len(two)
    s1, s2 = effective / (effective + n2), n2 / (effective + n2)
    r = 1.0
    for _ in range(ROUNDS):
        new = np.mean(two / (s1 * two + s2 * r)) / np.mean(1 / (s1 * one + s2 * r))
        done = abs(new - r) <= 1e-10 * abs(new)
        r = new
        if done:
            break
    else:
        raise ValueError(
            f"bridge: no fixed point after {ROUNDS} rounds, for proposal and posterior hardly overlap; pass a proposal."
        )

    f1, f2 = two / (s1 * two + s2 * r), r / (s1 * one + s2 * r)
    variance = f1.var() / f1.mean() ** 2 / n2 + f2.var() / f2.mean() ** 2 / effective_number(f2)
    return float(np.log(r) + centre), float(np.sqrt(variance))


def effective_number(x: np.ndarray) -> float:
    """The effective number of values (chain, draw), no more than there are."""
    return float(np.nanmin([moments.effective(x[..., None])[0], x.size]))


@record
class Raveled(Exact):
    """A Gaussian over the numbers of a position, in the order in which a tree is raveled.

    flat: the Gaussian over vectors.
    like: a position, for its shape.
    """

    flat: Any
    like: PyTree

    def log_density(self, position):
        return self.flat.log_density(ravel_pytree(position)[0])

    def exact(self, key: Key, n: int) -> PyTree:
        return jax.vmap(ravel_pytree(self.like)[1])(self.flat.exact(key, n))


def fit_gaussian(draws: PyTree) -> Raveled:
    """The Gaussian with mean and covariance of draws (chain, draw, …)."""
    one = jax.tree.map(lambda u: jnp.asarray(u)[0, 0], draws)
    flat = [np.asarray(u, np.float64).reshape(np.shape(u)[0] * np.shape(u)[1], -1) for u in jax.tree.leaves(draws)]
    x = np.concatenate(flat, axis=1)
    n, d = x.shape
    if n <= 2 * d:
        raise ValueError(f"bridge: {n} draws cannot fit a Gaussian of {d} numbers; take more, or pass a proposal.")
    return Raveled(Gaussian(x.mean(0), np.atleast_2d(np.cov(x.T))), one)
