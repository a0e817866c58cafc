r"""Stein variational gradient descent: particles that follow the gradient and push one another apart.

    θ_i ← θ_i + optimizer(φ_i),    φ_i = (1/n) Σ_j [K_ij ∇log p(θ_j) + ∇_{θ_j} K_ij],    K_ij = exp(−|θ_i − θ_j|²/(2w)),

w the median of squared distances over 2 log(n + 1). The n particles of a group are the approximation: chains of the
run, of which the last positions count. As n → ∞ it is p; in many dimensions a few particles are too narrow.

`FunctionSVGD` does the same to what the net says of a mini-batch, where distances mean something for any net: with
f_i (k outputs of each of its examples),

    v_i = (1/n) Σ_j [K_ij ∇_{f_j} (log p(y | f_j) N/|B| + log q₀(f_j)) + ∇_{f_j} K_ij],      φ_i = (∂f_i/∂θ_i)ᵀ v_i,

where q₀ is the Gaussian with mean and covariance of what the prior's draws say of these examples.

References
----------
Liu & Wang (2016), Stein variational gradient descent: a general purpose Bayesian inference algorithm, algorithm 1.
Wang, Ren, Zhu & Zhang (2019), Function space particle optimization for Bayesian neural networks, algorithm 1.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from langevin.core import tree
from langevin.core.advance import MAPPED
from langevin.core.kernel import Kernel, audited, begin, report
from langevin.core.record import positive, record, static
from langevin.core.target import HasBatches, HasLikelihood, need
from langevin.core.types import Law, PyTree
from langevin.samplers.optimize import Adam, Transformation
from langevin.vi.curvature import HasOutputs


class Particles(Kernel):
    """Abstract: particles that move together; a subclass gives `direction`.

    optimizer: `Adam`, or an optax.GradientTransformation.
    group: how many particles; 2 or more.
    """

    optimizer: Any
    group: Any
    requires = HasBatches
    audit = audited(excluded="its particles are an approximation together, and no chains")

    def __post_init__(self):
        if self.group < 2:
            raise ValueError(f"{type(self).__name__}: group is {self.group}; take 2 particles or more.")
        if isinstance(self.optimizer, optax.GradientTransformation):
            object.__setattr__(self, "optimizer", Transformation(self.optimizer))

    def init(self, key, position, target):
        one = lambda key, position: begin(key, position, target, memory=self.optimizer.init(position))
        return jax.vmap(one, out_axes=MAPPED)(jax.random.split(key, self.group), position)

    def step(self, key, state, target):
        first = jax.tree.map(lambda u: u[0], state.feed)
        batch, feed = target.draw(key, first)  # one batch for all
        found = jax.vmap(lambda position: target.evaluate(batch, position))(state.position)
        way = self.direction(state.position, found.grad, batch, target)
        update = lambda way, memory, position: self.optimizer.update(tree.scale(-1.0, way), memory, position)
        change, memory = jax.vmap(update)(way, state.memory, state.position)
        feed = jax.tree.map(lambda u: jnp.broadcast_to(u, (self.group, *u.shape)), feed)
        position = tree.add(state.position, change)
        new = state._replace(position=position, memory=memory, eval=found, feed=feed, count=state.count + 1)
        return new, jax.vmap(report, (MAPPED,))(new)

    def direction(self, positions: PyTree, grads: PyTree, batch: PyTree, target: Any) -> PyTree:
        """φ of every particle."""
        raise NotImplementedError

    def law(self) -> Law:
        return Law("approximate", 0.0, None, f"{self.group} particles that are p together as their number grows")


@record
class SVGD(Particles):
    """Stein variational gradient descent.

    optimizer: `Adam`, or an optax.GradientTransformation.
    group: how many particles; 2 or more.
    """

    optimizer: Any = Adam(0.01)
    group: int = static(default=20)

    def direction(self, positions, grads, batch, target):
        unravel = ravel_pytree(jax.tree.map(lambda u: u[0], positions))[1]
        return jax.vmap(unravel)(stein_direction(_flat(positions), _flat(grads)))


@record
class FunctionSVGD(Particles):
    """Stein variational gradient descent on what a net says of mini-batches.

    functions: draws of the prior, positions (m, …), m well above the outputs of a batch or of the order of it.
    optimizer: `Adam`, or an optax.GradientTransformation.
    group: how many particles; 2 or more.
    ridge: added to the prior's covariance of outputs, relative to its mean variance.
    """

    functions: PyTree
    optimizer: Any = Adam(0.01)
    group: int = static(default=20)
    ridge: float = positive(default=0.05)

    def init(self, key, position, target):
        need(target, HasLikelihood, "FunctionSVGD")
        if not isinstance(target.log_likelihood, HasOutputs):
            raise TypeError("FunctionSVGD needs a likelihood with outputs, as `bnn` builds; take SVGD.")
        return super().init(key, position, target)

    def direction(self, positions, grads, batch, target):
        likelihood = target.log_likelihood
        says = lambda position: likelihood.outputs(position, batch).reshape(-1)
        out, k = jax.vmap(says)(positions), jax.eval_shape(likelihood.outputs, _one(positions), batch).shape
        scale = target.n / k[0]
        of_data = jax.vmap(jax.grad(lambda f: scale * jnp.sum(likelihood.given(f.reshape(k), batch))))(out)
        prior = jax.lax.map(says, self.functions)
        ways = stein_direction(out, of_data + prior_score(out, prior, self.ridge))
        pull = lambda position, way: jax.vjp(says, position)[1](way)[0]
        return jax.vmap(pull)(positions, ways)


def stein_direction(x: jax.Array, score: jax.Array) -> jax.Array:
    """φ of particles x (n, d) with ∇log p (n, d)."""
    square = jnp.sum((x[:, None] - x[None]) ** 2, axis=-1)
    n = len(x)
    width = jnp.maximum(jnp.median(square[jnp.triu_indices(n, 1)]) / (2 * jnp.log(n + 1.0)), 1e-12)
    kernel = jnp.exp(-square / (2 * width))
    apart = (jnp.sum(kernel, axis=1)[:, None] * x - kernel @ x) / width  # Σ_j ∇_{x_j} K_ij
    return (kernel @ score + apart) / n


def prior_score(out: jax.Array, draws: jax.Array, ridge: Any) -> jax.Array:
    """∇log q₀ at outputs (n, d), of the Gaussian of draws (m, d)."""
    mean = jnp.mean(draws, axis=0)
    apart = draws - mean
    floor = ridge * jnp.mean(apart**2) + 1e-8
    # (A Aᵀ/m + floor I)⁻¹ by Woodbury, in the space of draws
    small = apart @ apart.T + len(draws) * floor * jnp.eye(len(draws))
    away = out - mean
    return -(away - (jnp.linalg.solve(small, apart @ away.T).T @ apart)) / floor


def _flat(x):
    return jax.vmap(lambda u: ravel_pytree(u)[0])(x)


def _one(x):
    return jax.tree.map(lambda u: u[0], x)
