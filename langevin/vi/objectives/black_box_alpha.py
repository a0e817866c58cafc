r"""Black-box α-divergence minimisation, local to the examples as in power expectation propagation.

    F_α(φ) = Σ_i (1/α) log E_q p(y_i | θ)^α − KL(q ‖ prior),

estimated by K draws for every example of a mini-batch. α → 0 is the ELBO; α = 1 fits the predictive density of every
example, so that intervals are wider where weights disagree; ½ is between. It is no bound of log Z.

References
----------
Hernández-Lobato, Li, Rowland, Bui, Hernández-Lobato & Turner (2016), Black-box α-divergence minimization.
Li & Gal (2017), Dropout inference in Bayesian neural networks with alpha-divergences, eq. (6).
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from langevin.core.record import positive, record, static
from langevin.core.target import HasLikelihood
from langevin.core.types import Eval
from langevin.vi.family import ClosedForm, HasEntropy, HasLogProb, HasMoments, HasPenalty, check_family


@record
class BlackBoxAlpha:
    """The energy of black-box α with a shared approximation.

    alpha: α, above 0 (the limit 0 is the ELBO) and at most 1.
    draws: K.
    """

    requires: ClassVar[Any] = HasLikelihood
    alpha: float = positive(default=0.5)
    draws: int = static(default=10)

    def __post_init__(self):
        if self.draws < 1 or (isinstance(self.alpha, Real) and self.alpha > 1):
            raise ValueError(
                f"BlackBoxAlpha: alpha is {self.alpha} and draws {self.draws}; take 0 < alpha ≤ 1 and 1 draw or more."
            )

    def evaluate(self, key, rows, params, family: Any, target: Any) -> Eval:
        n = jax.tree.leaves(rows)[0].shape[0]

        def energy(params):
            keys = jax.random.split(key, self.draws)
            positions = jax.vmap(family.sample, (0, None))(keys, params)
            log_p = jax.vmap(lambda position: target.likelihood(position, rows))(positions)
            local = jax.nn.logsumexp(self.alpha * log_p, axis=0) - math.log(self.draws)
            return target.n / n * jnp.sum(local) / self.alpha - divergence(family, params, positions, target)

        value, grad = jax.value_and_grad(energy)(params)
        return Eval(value, grad, jnp.asarray(n * self.draws, jnp.int32))


def divergence(family: Any, params: Any, positions: Any, target: Any) -> jax.Array:
    """KL(q ‖ prior), in closed form as far as it goes, else from the draws."""
    if isinstance(family, HasPenalty):
        return family.penalty(params, target.log_prior)
    if isinstance(family, HasMoments) and isinstance(target.log_prior, ClosedForm):
        prior = target.log_prior.expected(family.mean(params), family.variance(params))
    else:
        prior = jnp.mean(jax.vmap(target.prior)(positions))
    if isinstance(family, HasEntropy):
        return -family.entropy(params) - prior
    check_family(family, HasLogProb, "BlackBoxAlpha")
    return jnp.mean(jax.vmap(family.log_prob, (None, 0))(params, positions)) - prior
