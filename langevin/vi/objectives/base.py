r"""What is maximised over φ, from the weights of a few draws of q_φ.

With θ_k ~ q_φ, k = 1 … K, and log w_k = log p̃(θ_k) − log q_φ(θ_k), an objective is a function of log w, and its
gradient is a sum over draws,

    ∇_φ = Σ_k a_k ∂θ_k/∂φ · ∇_θ log p̃(θ_k) − c_k ∇_φ log q,

so an objective gives its value and the coefficients a and c. How log q is differentiated is the estimator's:

    reparameterization   log q_φ(θ_k(φ)) through φ and through θ_k: the total derivative
    stl                  through θ_k alone ("sticking the landing"): the score, whose mean is zero in the ELBO, is left
                         out, so that the gradient has no variance where q is exact; biased for K > 1 unless α = 1
    dreg                 through θ_k alone, with coefficients for which the mean is that of the total derivative
                         ("doubly reparameterized")

References
----------
Roeder, Wu & Duvenaud (2017), Sticking the landing.
Tucker, Lawson, Gu & Maddison (2019), Doubly reparameterized gradient estimators, eqs. (8)-(12).
Daudel, Benton, Shi & Doucet (2023), Alpha-divergence variational inference meets importance weighted auto-encoders.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol, get_args, runtime_checkable

import jax
import jax.numpy as jnp

from langevin.core.record import static
from langevin.core.types import Batch, Eval, Key, PyTree, Scalar

Estimator = Literal["reparameterization", "stl", "dreg"]
Through = Literal["total", "path", "score"]  # what log q is differentiated through: both, θ alone, φ alone


class Terms(NamedTuple):
    """The value, and the coefficients a of ∇log p̃ and c of ∇log q of every draw."""

    value: Scalar
    target: jax.Array
    density: jax.Array


class Objective:
    """Abstract: what a fit maximises. A subclass is a record and gives `terms`.

    draws: K.
    estimator: "reparameterization", "stl" or "dreg".
    """

    draws: Any
    estimator: Any = static(default="reparameterization")

    def __post_init__(self):
        name = type(self).__name__
        if self.draws < 1:
            raise ValueError(f"{name}: draws is {self.draws}; it must be 1 or more.")
        if self.estimator not in get_args(Estimator):
            raise ValueError(f"{name}: estimator is {self.estimator!r}; there are {', '.join(get_args(Estimator))}.")
        self.check(name)

    def check(self, name: str) -> None:
        """Refuse settings of a subclass's own."""

    @property
    def through(self) -> Through:
        return "total" if self.estimator == "reparameterization" else "path"

    def terms(self, log_w: jax.Array, share: jax.Array) -> Terms:
        """share: logarithms of the shares of the draws, −log K unless the family is a mixture."""
        raise NotImplementedError


@runtime_checkable
class OwnEvaluation(Protocol):
    """An objective that is no function of log weights, and evaluates itself on rows of the target's data.

    requires: what the target must be able to do.
    """

    requires: Any

    def evaluate(self, key: Key, rows: Batch, params: PyTree, family: Any, target: Any) -> Eval: ...


def renyi(log_w: jax.Array, share: jax.Array, order: Any, estimator: str) -> Terms:
    """The bound (1/s) log Σ share w^s, s = 1 − α, and its gradient's coefficients."""
    s = 1.0 - order
    safe = jnp.where(s == 0.0, 1.0, s)
    value = jnp.where(s == 0.0, jnp.sum(jnp.exp(share) * log_w), jax.nn.logsumexp(share + safe * log_w) / safe)
    weight = jax.nn.softmax(share + s * log_w)
    if estimator == "dreg":
        weight = order * weight + s * weight**2
    return Terms(value, weight, weight)


def each(fn: Any, *xs: Any) -> Any:
    """fn of every row; one row alone is no batch, so that its matrix products stay plain."""
    if jax.tree.leaves(xs)[0].shape[0] > 1:
        return jax.vmap(fn)(*xs)
    return jax.tree.map(lambda u: u[None], fn(*jax.tree.map(lambda u: u[0], xs)))
