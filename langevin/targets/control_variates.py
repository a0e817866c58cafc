r"""Control variates: mini-batch gradients whose noise vanishes near an anchor a; re-centred now and then, SVRG.

    ĝ(θ) = ∇log π(θ) + G(a) + (N/n) Σ_{i∈b} [∇l_i(θ) − ∇l_i(a)],      G(a) = Σ_{i=1}^N ∇l_i(a),

and the same for the log density with L(a) = Σ l_i(a). Unbiased for every a, with variance O(|δ|²), δ = θ − a, in place
of O(1). With H(a) = Σ ∇²l_i(a) known the second order is taken out as well,

    ĝ(θ) = ∇log π(θ) + G(a) + H(a)δ + (N/n) Σ_{i∈b} [∇l_i(θ) − ∇l_i(a) − ∇²l_i(a)δ],

and the variance is O(|δ|⁴). With a fixed at the posterior mode this is SGLD-CV (`control_variates`); with a moved to
the present position now and then it is SVRG (`Recenter`). The anchor, L(a) and G(a) live in the feed, one of each a
chain. Every example of a batch is evaluated at θ and at a, so n_data counts it twice, and thrice with its second order;
the full sums of a re-centring, N more examples a chain, are not in Info.

References
----------
Baker, Fearnhead, Fox & Nemeth (2019), Control variates for stochastic gradient MCMC (SGLD-CV).
Dubey et al. (2016), Variance reduction in stochastic gradient Langevin dynamics, algorithm 2 (SVRG-LD).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree

from langevin.core import sharding, tree
from langevin.core.record import record
from langevin.core.target import Derived, HasLikelihood, need
from langevin.core.types import Batch, Eval, Key, Progress, PyTree, Scalar
from langevin.targets.stream import BLOCK


class Anchored(NamedTuple):
    """A feed or a batch of the inner target, with the anchor a, L(a) and G(a)."""

    inner: PyTree
    anchor: PyTree
    log_likelihood: Scalar
    grad: PyTree


@record
class ControlVariates(Derived):
    """A posterior whose mini-batches are corrected at an anchor; made by `control_variates(target, anchor)`.

    target: the posterior, with `prior`, `likelihood`, `data` and `n`, such as Bayes.
    anchor: a, where every chain's anchor starts.
    log_likelihood: L(a), the sum over all data.
    grad: G(a), its gradient.
    hessian: H(a) over the raveled position, (d, d); None to go by first order.
    """

    target: Any
    anchor: PyTree
    log_likelihood: Any
    grad: PyTree
    hessian: Any = None

    def prior(self, position: PyTree) -> Scalar:
        return self.target.prior(position)

    def log_density(self, position: PyTree) -> Scalar:
        return self.target.log_density(position)

    def start(self, key: Key) -> Anchored:
        return Anchored(self.target.start(key), self.anchor, self.log_likelihood, self.grad)

    def draw(self, key: Key, feed: Anchored, *, fraction: float = 1.0) -> tuple[Anchored, Anchored]:
        batch, inner = self.target.draw(key, feed.inner, fraction=fraction)
        return feed._replace(inner=batch), feed._replace(inner=inner)

    def evaluate(self, batch: Anchored, position: PyTree) -> Eval:
        n = jax.tree.leaves(batch.inner)[0].shape[0]
        scale = self.target.n / n
        here = _value_and_grad(self.target, position, batch.inner)
        prior = jax.value_and_grad(self.target.prior)(position)
        at = lambda anchor: _value_and_grad(self.target, anchor, batch.inner)
        whole, looks = (batch.log_likelihood, batch.grad), 2
        if self.hessian is None:
            there = at(batch.anchor)
        else:
            apart = tree.sub(position, batch.anchor)
            there = _second(apart, *jax.jvp(at, (batch.anchor,), (apart,)))
            flat, unravel = ravel_pytree(apart)
            turned = unravel(self.hessian @ flat)
            whole, looks = _second(apart, whole, (tree.dot(batch.grad, apart), turned)), 3
        value, grad = tree.add(prior, tree.axpy(scale, tree.sub(here, there), whole))
        return Eval(value, grad, jnp.asarray(looks * n, jnp.int32))

    def parts(self, batch: Anchored, n: int) -> tuple[Batch, ...]:
        return tuple(batch._replace(inner=part) for part in self.target.parts(batch.inner, n))


def control_variates(target, anchor: PyTree, *, hessian: Any = None) -> ControlVariates:
    """The target with control variates at `anchor`, of second order with a Hessian; all data are evaluated once."""
    need(target, HasLikelihood, "control_variates")
    anchor = jax.tree.map(lambda u: jnp.asarray(u, jnp.result_type(u)), anchor)  # not weakly typed
    value, grad = _sums(target, anchor)
    return ControlVariates(target, anchor, value, grad, hessian)


def _second(apart: PyTree, first: tuple, slope: tuple) -> tuple:
    """Value and gradient at a + δ to second order, from those at a and their slopes (g·δ, Hδ)."""
    value, grad = first
    rise, turned = slope
    return value + rise + 0.5 * tree.dot(turned, apart), tree.add(grad, turned)


class Recenter:
    """A callback that moves every chain's anchor to its present position about every `every` draws: SVRG.

    Callbacks come between chunks, so the anchors move at the first end of a chunk after each multiple of `every`; the
    evaluation kept in the state stays as it was and is replaced at the next step.
    """

    def __init__(self, every: int):
        if every < 1:
            raise ValueError(f"Recenter: every is {every}; it must be 1 or more.")
        self.every = every

    def __call__(self, progress: Progress) -> Progress:
        target, states = progress.target, progress.states
        if not isinstance(target, ControlVariates):
            name = type(target).__name__
            raise TypeError(f"Recenter: the target must be made by `control_variates`, outermost, but it is {name}.")
        if target.hessian is not None:
            raise ValueError(
                "Recenter: the Hessian of control variates is that of one anchor; leave it out to move anchors."
            )
        before = progress.done - progress.info.ok.shape[1]
        if progress.done // self.every == before // self.every:
            return progress
        chains = jax.tree.leaves(states.position)[0].shape[0]
        layout = sharding.layout(states.position, chains)
        value, grad = _sums_all(target.target, states.position, layout=layout)
        feed = states.feed._replace(anchor=states.position, log_likelihood=value, grad=grad)
        return progress._replace(states=states._replace(feed=feed))


def full_sums(target, position: PyTree) -> tuple[Scalar, PyTree]:
    """L and G: Σ l_i and Σ ∇l_i over all data, in blocks, so that memory does not grow with the data."""
    n, one = target.n, partial(_value_and_grad, target, position)
    if n <= BLOCK:
        return one(target.data)
    whole = n // BLOCK * BLOCK
    blocks = jax.tree.map(lambda u: u[:whole].reshape(-1, BLOCK, *u.shape[1:]), target.data)
    zero = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(one, _at(blocks, 0)))
    total, _ = lax.scan(lambda total, block: (tree.add(total, one(block)), None), zero, blocks)
    return total if whole == n else tree.add(total, one(jax.tree.map(lambda u: u[whole:], target.data)))


_sums = jax.jit(full_sums)


@partial(jax.jit, static_argnames="layout")
def _sums_all(target, positions, *, layout):
    sums = partial(full_sums, target)
    return jax.vmap(sums)(positions) if layout == "vmap" else lax.map(sums, positions)


def _value_and_grad(target, position, data):
    return jax.value_and_grad(lambda position: jnp.sum(target.likelihood(position, data)))(position)


def _at(x, i):
    return jax.tree.map(lambda u: u[i], x)
