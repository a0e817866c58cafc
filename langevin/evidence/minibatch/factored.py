r"""Factored targets: posteriors with the gradient of each factor, and a bound of its distance from that at an anchor.

Zig-Zag with subsampling evaluates one datum an event. It needs, of a posterior π(θ) ∏_i e^{l_i(θ)} on θ in R^d with
π = N(m, s²) of independent coordinates, besides what every target has,

    factors(index, position)   l_i(θ) and ∇l_i(θ) of the data named
    bound(anchor)              c_ij with |∂_j l_i(θ) − ∂_j l_i(a)| ≤ c_ij ‖(θ − a)/S‖ for every θ, S the anchor's scale
    bend(index, position, anchor)   (θ − a)ᵀ ∇²l_i(a) (θ − a); optional, for a better control variate of the value

`Regression` has them for l_i(θ) = f(x_i·θ, y_i), where |f''| ≤ F: c_ij = F |x_ij| ‖S x_i‖. F = 1/σ² for the Gaussian
likelihood, ¼ for the logistic one. It is a Bayes, so that every other method runs on the same object.

`find_anchor` finds the mode by Newton's method and stores what the control variates need: L(a), G(a) = Σ ∇l_i(a), H(a)
= Σ ∇²l_i(a), and the terms l_i(a), ∇l_i(a), so that an evaluation of a datum is one at θ alone. Any a will do: the
nearer to the mode, the cheaper.

`assign_tickets` draws datum i for coordinate j with probability q_ij. What counts for Zig-Zag is C_j = max_i c_ij/q_ij:
with q_j ∝ c_j it is Σ_i c_ij, with q uniform n max_i c_ij. Rounding to whole tickets keeps q exact and C_j within 1 +
½.

References
----------
Bierkens, Fearnhead & Roberts (2019), The Zig-Zag process and super-efficient sampling for Bayesian analysis of big
  data, §4 (control variates and the bounds they need).
Sen, Sachs, Lu & Dunson (2020), Efficient posterior sampling for high-dimensional imbalanced logistic regression
  (data drawn in proportion to their bounds).
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core.record import positive, record
from langevin.core.smooth import softplus
from langevin.core.target import HasFactors
from langevin.core.types import Key, Scalar
from langevin.evidence.base import LOG_2PI, Normal
from langevin.targets.bayes import Bayes

Choice = Literal["weighted", "uniform"]
STEPS = 50  # of Newton's method at most; from the prior's mean a regression takes about five
SHARE = 2  # tickets a datum in the mean, before rounding up; more bring C_j nearer to Σ_i c_ij and take more memory
TINY = 1e-30


class Factors(NamedTuple):
    """Of m data: values l_i(θ), (m,), and grads ∇l_i(θ), (m, d)."""

    values: jax.Array
    grads: jax.Array


class Anchor(NamedTuple):
    """The likelihood near one position a."""

    position: jax.Array  # a, (d,)
    log_likelihood: Scalar  # L(a)
    grad: jax.Array  # G(a), (d,)
    hessian: jax.Array  # H(a), (d, d)
    scale: jax.Array  # S: standard deviations of the posterior, by its curvature at a, (d,)
    factors: Factors  # at a, of all data
    n_data: int  # examples evaluated to make it


@runtime_checkable
class Factored(HasFactors, Protocol):
    """A target with factors on (d,); `base` is its prior, a Normal."""

    @property
    def base(self) -> Normal: ...


@runtime_checkable
class Curved(Factored, Protocol):
    """A factored target with the second-order term of every factor at an anchor."""

    def bend(self, index: jax.Array, position: jax.Array, anchor: Any) -> jax.Array: ...


@record
class Prior(Normal):
    """Independent normals, called as the log prior of Bayes."""

    def __call__(self, position):
        return self.log_density(position)


@record
class Gaussian:
    """y ~ N(η, σ²).

    sigma: σ.
    """

    sigma: float = positive(default=1.0)

    def __call__(self, position, data):
        return self.value(data["x"] @ position, data["y"])

    def value(self, eta, y):
        return -0.5 * ((y - eta) / self.sigma) ** 2 - jnp.log(self.sigma) - 0.5 * LOG_2PI

    def slope(self, eta, y):
        return (y - eta) / self.sigma**2

    def bend(self, eta, y):
        return jnp.full_like(eta, -1.0) / self.sigma**2

    def steepest(self):
        """F ≥ |f''|."""
        return 1.0 / self.sigma**2


@record
class Bernoulli:
    """P(y = 1) = 1/(1 + e^{−η})."""

    def __call__(self, position, data):
        return self.value(data["x"] @ position, data["y"])

    def value(self, eta, y):
        return y * eta - softplus(eta)

    def slope(self, eta, y):
        return y - jax.nn.sigmoid(eta)

    def bend(self, eta, y):
        return -jax.nn.sigmoid(eta) * jax.nn.sigmoid(-eta)

    def steepest(self):
        """F ≥ |f''|."""
        return 0.25


@record
class Regression(Bayes):
    """A posterior whose likelihood sees θ through x_i·θ; made by `linear` or `logistic`.

    log_prior: a Prior.
    log_likelihood: Gaussian or Bernoulli.
    data: {"x": (n, d), "y": (n,)}.
    """

    @property
    def base(self) -> Any:
        return self.log_prior

    def factors(self, index: jax.Array, position: jax.Array) -> Factors:
        x, y, f = self.data["x"][index], self.data["y"][index], self._family
        eta = x @ position
        return Factors(f.value(eta, y), f.slope(eta, y)[:, None] * x)

    def bound(self, anchor: Anchor) -> jax.Array:
        x = self.data["x"]
        length = jnp.sqrt(jnp.sum((x * anchor.scale[None]) ** 2, axis=1, keepdims=True))
        return self._family.steepest() * jnp.abs(x) * length

    def bend(self, index: jax.Array, position: jax.Array, anchor: Anchor) -> jax.Array:
        x, y = self.data["x"][index], self.data["y"][index]
        return self._family.bend(x @ anchor.position, y) * (x @ (position - anchor.position)) ** 2

    @property
    def _family(self) -> Any:
        return self.log_likelihood


def linear(x, y, *, sigma=1.0, mean=0.0, scale=1.0, batch: int | None = None) -> Regression:
    """Bayesian linear regression: y ~ N(Xθ, σ²), σ known, θ ~ N(mean, scale²); `batch` is for the other methods."""
    return _regression("linear", Gaussian(sigma), x, y, mean, scale, batch)


def logistic(x, y, *, mean=0.0, scale=1.0, batch: int | None = None) -> Regression:
    """Bayesian logistic regression: y in {0, 1}, P(y = 1) = σ(x·θ), θ ~ N(mean, scale²)."""
    made = _regression("logistic", Bernoulli(), x, y, mean, scale, batch)
    if not bool(np.isin(np.asarray(made.data["y"]), (0.0, 1.0)).all()):
        raise ValueError("logistic: y has values other than 0 and 1; code the two classes so.")
    return made


def _regression(name, family, x, y, mean, scale, batch):
    x = jnp.asarray(x, jnp.result_type(float, x))
    y = jnp.asarray(y, x.dtype)
    if x.ndim != 2 or y.shape != x.shape[:1]:
        raise ValueError(f"{name}: x is {x.shape} and y {y.shape}; they must be (n, d) and (n,).")
    if not bool(jnp.isfinite(x).all() & jnp.isfinite(y).all()):
        raise ValueError(f"{name}: x or y has values that are not finite; remove or impute those rows.")
    wide = lambda u: jnp.broadcast_to(jnp.asarray(u, x.dtype), x.shape[1:])
    if not bool(jnp.all(wide(scale) > 0)):
        raise ValueError(f"{name}: every scale of the prior must be positive; Zig-Zag begins with its draws.")
    return Regression(Prior(wide(mean), wide(scale)), family, {"x": x, "y": y}, batch)


def find_anchor(target: Factored, position: Any = None) -> Anchor:
    """The mode of a log-concave posterior by Newton's method from `position` (default: the prior's mean), as an anchor.

    A step that lowers the log density is halved. Each evaluation of value, gradient and curvature counts n examples.
    """
    a = jnp.asarray(target.base.mean if position is None else position, target.base.mean.dtype)
    evals, here = 1, _newton(target, a)
    slack = 8 * float(jnp.finfo(a.dtype).eps)  # what rounding may take from a sum of n values
    gain = jnp.inf
    for _ in range(STEPS):
        value, step, gain = float(here[0]), here[1], float(here[2])
        if not gain > 1e-3:  # within 0.03 standard deviations of the mode
            break
        for _ in range(STEPS):
            evals, here = evals + 1, _newton(target, a + step)
            if float(here[0]) >= value - slack * abs(value):
                break
            step = 0.5 * step
        a = a + step
    anchor = _store(target, a)
    if not (abs(gain) < 1.0 and bool(jnp.isfinite(anchor.scale).all())):
        raise ValueError(
            f"find_anchor: Newton's method did not find the mode (the gradient promises {gain:.3g} nats more); "
            "the posterior must be log-concave; standardise x, or pass a better position."
        )
    return anchor._replace(n_data=(evals + 1) * target.n)


@jax.jit
def _newton(target, a):
    """The log density, Newton's step, and what it would gain if all were quadratic, twice."""
    grad = jax.grad(target.log_density)(a)
    step = jnp.linalg.solve(-jax.hessian(target.log_density)(a), grad)
    return target.log_density(a), step, grad @ step


@jax.jit
def _store(target, a):
    factors = target.factors(jnp.arange(target.n), a)
    values, grads = (jnp.sum(u, axis=0) for u in factors)
    prior, whole = jax.hessian(target.prior)(a), jax.hessian(target.log_density)(a)
    return Anchor(a, values, grads, whole - prior, jnp.sqrt(jnp.diagonal(jnp.linalg.inv(-whole))), factors, 0)


@record
class Tickets:
    """Data to be drawn, for every coordinate, with exact probabilities; made by `assign_tickets`.

    tickets: data by coordinate, each as often as its probability says, (d, m).
    held: how many tickets a coordinate has, (d,).
    chance: q_ij, (n, d).
    limit: C_j = max_i c_ij/q_ij, (d,).
    """

    tickets: Any
    held: Any
    chance: Any
    limit: Any

    def draw(self, key: Key, j) -> jax.Array:
        """A datum for coordinate j."""
        return self.tickets[j, jax.random.randint(key, (), 0, self.held[j])]


def assign_tickets(bound: jax.Array, choice: Choice = "weighted") -> Tickets:
    """Tickets in proportion to c_ij, rounded up to whole ones ("weighted"), or one a datum ("uniform")."""
    if choice not in ("weighted", "uniform"):
        raise ValueError(f"zigzag: choice is {choice!r}; it must be 'weighted' or 'uniform'.")
    c = np.asarray(bound, float)
    if not (np.isfinite(c).all() and (c >= 0).all()):
        raise ValueError("zigzag: the target's bound is negative or not finite somewhere; check its data.")
    n, d = c.shape
    # only data whose bound is zero, and which never cause an event, may have no ticket
    share = c * (SHARE * n / np.maximum(c.sum(0), TINY))[None] if choice == "weighted" else np.ones_like(c)
    count = np.ceil(share).astype(int)
    held = np.maximum(count.sum(0), 1)
    tickets = np.zeros((d, held.max()), np.int32)
    for j in range(d):
        tickets[j, : count[:, j].sum()] = np.repeat(np.arange(n), count[:, j])
    chance = count / held[None]
    limit = np.max(c / np.where(count > 0, chance, 1.0), axis=0)
    of = lambda u: jnp.asarray(u, bound.dtype)
    return Tickets(jnp.asarray(tickets), jnp.asarray(held, jnp.int32), of(chance), of(limit))
