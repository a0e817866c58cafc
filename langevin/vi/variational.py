r"""Fitting a family as a target: the position is φ, and what is maximised an objective over draws of q_φ.

    estimate(φ) = objective(log p̃(θ_k) − log q_φ(θ_k)),   θ_k = T_φ(ε_k).

log p̃ is the inner target's, on mini-batches if it has them. Its gradient is the inner target's own, pulled back through
T_φ, so any target can be approximated: control variates, tempered posteriors, sums.
`run(key, Optimize(…), Variational(target, family, objective), φ)` is the fit.

References
----------
Chen, Li, Zhang & Li, Bayesian Computation in Deep Learning, eqs. (2.15)-(2.19), algorithm 2.
Mohamed, Rosca, Figurnov & Mnih (2020), Monte Carlo gradient estimation in machine learning, §5.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from langevin.core import tree
from langevin.core.record import record
from langevin.core.target import Composite, Derived, HasLikelihood, HasLogPrior, HasPrior, need, provides
from langevin.core.types import Eval
from langevin.vi import family as families
from langevin.vi.objectives.base import OwnEvaluation, Through, each
from langevin.vi.objectives.elbo import ELBO


@record
class Variational(Derived):
    """An objective of a family fitted to a target; a Target whose position is φ.

    target: what is approximated; one with mini-batches evaluates on them.
    family: how q_φ looks.
    objective: what is maximised.
    """

    target: Any
    family: Any
    objective: Any = ELBO()

    def __post_init__(self):
        families.check_family(self.family, families.Family, "Variational")
        objective, name = self.objective, type(self.objective).__name__
        if isinstance(objective, OwnEvaluation):
            need(self.target, objective.requires, name)
        elif isinstance(self.family, families.HasJoint):
            if objective.through != "total":
                raise ValueError(
                    f"Variational: {type(self.family).__name__} has no density of its own, so {name} needs "
                    "estimator='reparameterization'."
                )
        elif not self.closed:
            families.check_family(self.family, families.HasLogProb, name)

    @property
    def stochastic(self) -> bool:
        return True

    @property
    def closed(self) -> bool:
        """Whether log q needs no draw: the entropy of q, or a penalty in its place, is known."""
        objective = self.objective
        analytic = isinstance(objective, ELBO) and objective.analytic and objective.estimator == "reparameterization"
        known = isinstance(self.family, (families.HasEntropy, families.HasPenalty))
        return analytic and known and not isinstance(self.family, families.HasStrata)

    def draw(self, key, feed, *, fraction=1.0):
        k_rows, k_noise = jax.random.split(key)
        rows, feed = self.target.draw(k_rows, feed, fraction=fraction)
        return (k_noise, rows), feed

    def parts(self, batch, n):
        key, rows = batch
        return tuple(zip(jax.random.split(key, n), self.target.parts(rows, n), strict=True))

    def evaluate(self, batch, position):
        key, rows = batch
        if isinstance(self.objective, OwnEvaluation):
            return self.objective.evaluate(key, rows, position, self.family, self.target)
        return self._closed(key, rows, position) if self.closed else self._weighed(key, rows, position)

    def _closed(self, key, rows, params):
        """The ELBO with entropy, and where possible the mean of the log prior, in closed form."""

        def one(key):
            position, pull = jax.vjp(lambda params: self.family.sample(key, params), params)
            found = self._without_prior(rows, position) if self._knows_prior() else self.target.evaluate(rows, position)
            return found.log_density, pull(found.grad)[0], found.n_data

        values, grads, n_data = each(one, jax.random.split(key, self.objective.draws))
        rest, more = jax.value_and_grad(self._known)(params)
        mean = lambda u: jnp.mean(u, axis=0)
        return Eval(mean(values) + rest, tree.add(jax.tree.map(mean, grads), more), jnp.sum(n_data))

    def _without_prior(self, rows, position):
        """The estimate of the log likelihood."""
        target = self.target
        if provides(target, HasLikelihood) and not isinstance(target, Composite):
            n = jax.tree.leaves(rows)[0].shape[0]
            log_likelihood = lambda position: target.n / n * jnp.sum(target.likelihood(position, rows))
            value, grad = jax.value_and_grad(log_likelihood)(position)
            return Eval(value, grad, jnp.asarray(n, jnp.int32))
        found = target.evaluate(rows, position)  # what the target adds for its prior is taken out again
        value, grad = jax.value_and_grad(target.prior)(position)
        return found._replace(log_density=found.log_density - value, grad=tree.sub(found.grad, grad))

    def _known(self, params):
        """The part of the ELBO that depends on no draw."""
        family = self.family
        if isinstance(family, families.HasPenalty):
            return -family.penalty(params, self.target.log_prior)
        value = family.entropy(params)
        if self._knows_prior():
            value += self.target.log_prior.expected(family.mean(params), family.variance(params))
        return value

    def _knows_prior(self) -> bool:
        target = self.target
        if not (provides(target, HasPrior) and isinstance(target, HasLogPrior)):
            return False
        if isinstance(self.family, families.HasPenalty):
            return True
        return isinstance(target.log_prior, families.ClosedForm) and isinstance(self.family, families.HasMoments)

    def _weighed(self, key, rows, params):
        """Any objective of log weights: all draws are made, evaluated and pulled back together."""
        keys = jax.random.split(key, self.count())

        def drawn(params):
            components, share = self.shares(params)
            one = lambda key, c: joint(self.family, key, params, self.objective.through, c)
            return (*each(one, keys, components), share)

        (positions, log_q, share), pull = jax.vjp(drawn, params)
        found = each(lambda position: self.target.evaluate(rows, position), positions)
        log_w = found.log_density - log_q
        terms = self.objective.terms(log_w, share)
        of_share = jax.grad(lambda share: self.objective.terms(log_w, share).value)(share)
        weigh = lambda g: (terms.target.reshape(-1, *[1] * (g.ndim - 1)) * g).astype(g.dtype)
        (grad,) = pull((jax.tree.map(weigh, found.grad), -terms.density.astype(log_q.dtype), of_share))
        return Eval(terms.value, grad, jnp.sum(found.n_data))

    def count(self) -> int:
        """Draws of one evaluation: of a mixture the same number of every component."""
        return self.objective.draws * (self.family.components if isinstance(self.family, families.HasStrata) else 1)

    def shares(self, params):
        """The component of every draw, and the logarithm of its share."""
        draws = self.objective.draws
        if not isinstance(self.family, families.HasStrata):
            return jnp.zeros(draws, jnp.int32), jnp.full(draws, -math.log(draws))
        share = self.family.share(params) - math.log(draws)
        return jnp.repeat(jnp.arange(self.family.components), draws), jnp.repeat(share, draws)


def joint(family: Any, key: Any, params: Any, through: Through, component: Any = 0) -> tuple[Any, jax.Array]:
    """A draw and its log q, differentiable through what `through` says."""
    if isinstance(family, families.HasJoint):
        return family.joint(key, params)
    strata = isinstance(family, families.HasStrata)
    position = family.sample_from(key, params, component) if strata else family.sample(key, params)
    if through == "score":
        position = jax.lax.stop_gradient(position)
    held = jax.lax.stop_gradient(params) if through == "path" else params
    return position, family.log_prob(held, position)
