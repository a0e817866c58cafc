r"""Objectives of `lv.vi` for latent variables: functions of the weights w_k = p_θ(x, z_k)/q_φ(z_k | x), z_k ~ q_φ.

ELBO, VR-IWAE and IWAE, with a gradient in θ and φ from one pass back. With w̃ the normalised weights w^{1−α}, the
gradient of θ is Σ w̃_k ∇_θ log p_θ(x, z_k); that of φ depends on the estimator of the objective:

    reparameterization   the total derivative
    stl                  Σ w̃_k ∂log w_k/∂z_k ∂z_k/∂φ: biased for K > 1 and α < 1
    dreg                 Σ (α w̃_k + (1 − α) w̃_k²) ∂log w_k/∂z_k ∂z_k/∂φ: the mean is that of the total derivative

The cotangent of log w_k is w̃_k for θ; that of z_k is then multiplied by α + (1 − α) w̃_k.

References
----------
Burda, Grosse & Salakhutdinov (2016), Importance weighted autoencoders, eqs. (8), (13).
Tucker, Lawson, Gu & Maddison (2019), Doubly reparameterized gradient estimators, eq. (8).
Daudel, Benton, Shi & Doucet (2023), Alpha-divergence variational inference meets importance weighted auto-encoders.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from langevin.core.record import record, replace
from langevin.vi.objectives.base import Objective
from langevin.vi.objectives.elbo import ELBO
from langevin.vi.objectives.renyi import IWAE, Renyi


@record
class Weighted:
    """An objective of `lv.vi`, of every example.

    objective: ELBO, Renyi, IWAE.
    """

    objective: Objective

    def __post_init__(self):
        if not isinstance(self.objective, (ELBO, Renyi, IWAE)):
            raise TypeError(
                f"Weighted: the objective is {type(self.objective).__name__}, which is no lower bound of log p(x); "
                "take ELBO, Renyi or IWAE of lv.vi."
            )

    def init(self, key, model):
        return ()

    def values(self, key, posteriors, params):
        objective = self.objective
        z = posteriors.draw(key, objective.draws)
        if isinstance(objective, ELBO) and objective.analytic and objective.estimator == "reparameterization":
            return jnp.mean(posteriors.log_likelihood(z), axis=1) - posteriors.divergence()
        if objective.through == "total":
            return _terms(objective, posteriors.log_weight(z)).value
        rest = posteriors.held(q=True)
        return _along_path(objective, rest._replace(theta=None), rest.theta, z)


def _terms(objective: Any, log_w: jax.Array) -> Any:
    share = jnp.full(log_w.shape[1], -math.log(log_w.shape[1]))
    return jax.vmap(lambda log_w: objective.terms(log_w, share))(log_w)


@jax.custom_vjp
def _along_path(objective, posteriors, theta, z):
    """The objective of every example; φ learns through z alone."""
    return _terms(objective, posteriors._replace(theta=theta).log_weight(z)).value


def _forward(objective, posteriors, theta, z):
    log_w, pull = jax.vjp(lambda theta, z: posteriors._replace(theta=theta).log_weight(z), theta, z)
    path = _terms(objective, log_w)
    whole = _terms(replace(objective, estimator="reparameterization"), log_w).target
    return path.value, (pull, whole, path.target / jnp.maximum(whole, 1e-30))


def _backward(kept, ct):
    pull, whole, share = kept
    theta, z = pull(ct[:, None] * whole)
    return None, None, theta, z * share[..., None]


_along_path.defvjp(_forward, _backward)
