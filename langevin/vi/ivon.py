r"""IVON: a factorised Gaussian fitted by natural gradients, at the price of Adam.

At θ ~ N(m, σ²) with σ² = 1/(λ(h + δ)), and ĝ the gradient of the mean loss there (its prior left out),

    ĥ = ĝ (θ − m)/σ²,      g ← β₁ g + (1 − β₁) ĝ,      h ← β₂ h + (1 − β₂) ĥ + ½ (1 − β₂)² (h − ĥ)²/(h + δ),
    m ← m − α (g/(1 − β₁^t) + δ m)/(h + δ).

λ is the effective sample size, N of the target over its temperature, and δ its prior's precision over λ, so that q is
the Gaussian of least KL to p. ĥ estimates the mean curvature by Stein's identity, from the gradient alone; the last
term keeps h + δ positive. Stated are α for h + δ at the begin, as in the paper's scaling α (h₀ + δ).

`ivon` is an `optax.GradientTransformation` for any training loop:

    θ, state = sample_parameters(key, m, state)
    state = accumulate_gradients(grad(loss)(θ), state)          # as often as wanted, each after its own sample
    updates, state = optimizer.update(None, state, m)

and `IVON` a tuner of `Independent(MeanField())`, which takes λ and δ from the target.

References
----------
Shen, Daheim, Cong, Nickl, Marconi, Bazan, Yokota, Gurevych, Cremers, Khan & Möllenhoff (2024), Variational learning is
    effective for large deep networks, algorithm 1.
Lin, Schmidt & Khan (2020), Handling the positive-definite constraint in the Bayesian learning rule.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from langevin.core import noise, tree
from langevin.core.advance import chains_of
from langevin.core.begin import begin_all
from langevin.core.kernel import Kernel, PerChain, audited, begin, innermost, replace, report, spread
from langevin.core.record import positive, record, static
from langevin.core.target import HasBatches, HasLikelihood, HasPrior, examples, need, provides
from langevin.core.types import Eval, Key, Law, PyTree, State
from langevin.tune.positions import opened
from langevin.vi.families.mean_field import MeanField, Normal
from langevin.vi.fit import climbed, of_small_batches
from langevin.vi.independent import Independent

LEAST = 1e-6  # precision of a prior that has none
FIRST = 256  # examples by which the curvature is measured at first


class Natural(NamedTuple):
    """The state of `ivon`: steps, momentum, curvature h, ess λ, decay δ, and what samples since the last step gave."""

    steps: jax.Array
    momentum: PyTree
    curvature: PyTree
    ess: jax.Array
    decay: PyTree
    apart: PyTree  # (θ − m)/σ² of the last sample
    grad: PyTree  # Σ ĝ
    stein: PyTree  # Σ ĝ (θ − m)/σ²
    samples: jax.Array


def ivon(
    learning_rate: Any,
    ess: float,
    *,
    weight_decay: Any = 1e-4,
    hess_init: float = 0.1,
    b1: float = 0.9,
    b2: float = 0.99999,
    rescale: bool = True,
) -> optax.GradientTransformation:
    """IVON as an optimizer of the mean loss without its prior.

    learning_rate: α, a number or a schedule.
    ess: λ, the number of examples.
    weight_decay: δ, the prior's precision over λ; a number, or a tree like the parameters.
    hess_init: h at first.
    b1, b2: decay of momentum and of the curvature.
    rescale: multiply α by h₀ + δ.
    """
    for name, value, most in (("ess", ess, math.inf), ("hess_init", hess_init, math.inf), ("b1", b1, 1), ("b2", b2, 1)):
        low = value >= 0 if name == "b1" else value > 0
        if isinstance(value, Real) and not (low and value < most):
            raise ValueError(f"ivon: {name} is {value}; it must be positive{' and below 1' if most == 1 else ''}.")

    def init(params):
        zeros = tree.zeros_like(params)
        full = lambda u, d: jnp.broadcast_to(jnp.asarray(d, u.dtype), u.shape)
        decay = jax.tree.map(full, params, tree.fill(weight_decay, params))
        start = jax.tree.map(lambda u: jnp.full_like(u, hess_init), params)
        count = jnp.zeros((), jnp.int32)
        return Natural(count, zeros, start, jnp.asarray(ess, jnp.float32), decay, zeros, zeros, zeros, count)

    def update(grad, state, params=None):
        if params is None:
            raise ValueError("ivon: update needs the parameters, update(grad, state, params).")
        if grad is not None:
            state = accumulate_gradients(grad, state)
        steps = state.steps + 1
        n = jnp.maximum(state.samples, 1)
        g, stein = tree.scale(1 / n, state.grad), tree.scale(1 / n, state.stein)
        momentum = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.momentum, g)

        def curved(h, s, d):
            return b2 * h + (1 - b2) * s + 0.5 * (1 - b2) ** 2 * (h - s) ** 2 / (h + d)

        h = jax.tree.map(curved, state.curvature, stein, state.decay)
        rate = learning_rate(state.steps) if callable(learning_rate) else learning_rate
        debias = 1 - b1 ** steps.astype(jnp.float32)

        def one(m, u, h, d):
            size = rate * (hess_init + d) if rescale else rate
            return (-size * (m / debias + d * u) / (h + d)).astype(u.dtype)

        updates = jax.tree.map(one, momentum, params, h, state.decay)
        zeros = tree.zeros_like(params)
        none = jnp.zeros((), jnp.int32)
        return updates, Natural(steps, momentum, h, state.ess, state.decay, zeros, zeros, zeros, none)

    return optax.GradientTransformation(init, update)


def sample_parameters(key: Key, params: PyTree, state: Natural) -> tuple[PyTree, Natural]:
    """θ ~ q, at which the next gradient is to be taken, and the state that remembers it."""
    precision = jax.tree.map(lambda h, d: state.ess * (h + d), state.curvature, state.decay)
    apart = jax.tree.map(lambda e, p: e * jax.lax.rsqrt(p), noise.like(key, params), precision)
    return tree.add(params, apart), state._replace(apart=tree.mul(precision, apart))


def accumulate_gradients(grad: PyTree, state: Natural) -> Natural:
    """The gradient at the last sample, counted in."""
    stein = tree.add(state.stein, tree.mul(grad, state.apart))
    return state._replace(grad=tree.add(state.grad, grad), stein=stein, samples=state.samples + 1)


def scale_of(state: Natural) -> PyTree:
    """σ of q."""
    return jax.tree.map(lambda h, d: jax.lax.rsqrt(state.ess * (h + d)), state.curvature, state.decay)


# --- on a target --------------------------------------------------------------------------------------------------


@record
class IVON:
    """A tuner of `Independent(MeanField())` by natural gradients.

    rate: α at first, not rescaled: the share of a Newton step that is taken; it falls to zero by a cosine.
    steps: of the mean.
    b1: decay of the momentum.
    b2: decay of the curvature, which is measured at the start by squared gradients of single examples.
    samples: of q for one step.
    batch: examples in a step, where the target has mini-batches; None for its own.
    """

    rate: float = positive(default=0.03)
    steps: int = static(default=5_000)
    b1: float = positive(default=0.9)
    b2: float = positive(default=0.999)
    samples: int = static(default=1)
    batch: int | None = static(default=None)

    def __call__(self, key: Key, kernel: Any, target: Any, states: State) -> tuple[Any, State]:
        drawn = innermost(kernel)
        if not isinstance(drawn, Independent) or not isinstance(drawn.family, MeanField):
            raise TypeError("vi.IVON: the kernel must be Independent(MeanField()), whose Gaussian it finds.")
        need(target, HasBatches, "vi.IVON")
        key, states = opened(key, kernel, target, states, "vi.IVON")
        k_init, k_run = jax.random.split(key)
        step = NaturalStep(float(self.rate), self.steps, self.b1, self.b2, self.samples)
        small = of_small_batches(target, self.batch)
        begun = begin_all(k_init, step, small, states.position)
        found = climbed(k_run, step, small, begun, self.steps, "vi.IVON")
        mean, log_scale = found.position, jax.tree.map(jnp.log, jax.vmap(scale_of)(found.memory))
        wide = spread(replace(drawn, params=()), chains_of(states))
        return PerChain(replace(wide, params=Normal(mean, log_scale))), states._replace(position=mean)

    def work(self, n: int) -> tuple[int, int]:
        return self.steps * self.samples, min(self.batch or n, n)


@record
class NaturalStep(Kernel):
    """One step of `ivon` on a target with data; `position` is m, and `memory` the optimizer's state.

    rate: α at first.
    steps: after which it is zero.
    b1: decay of the momentum.
    b2: decay of the curvature.
    samples: of q for one step.
    """

    rate: float
    steps: int
    b1: float
    b2: float
    samples: int = static()
    audit = audited(excluded="it samples no distribution: it fits a Gaussian")

    def optimizer(self, target):
        rate = lambda t: 0.5 * self.rate * (1 + jnp.cos(jnp.pi * jnp.minimum(t / self.steps, 1.0)))
        return ivon(rate, examples(target), hess_init=1.0, b1=self.b1, b2=self.b2, rescale=False)

    def init(self, key, position, target):
        k_begin, k_measure = jax.random.split(key)
        memory = self.optimizer(target).init(position)
        memory = memory._replace(curvature=measured(k_measure, target, position))
        if provides(target, HasPrior):
            ones = jax.tree.map(jnp.ones_like, position)
            curvature = jax.jvp(jax.grad(target.prior), (position,), (ones,))[1]
            decay = jax.tree.map(lambda u: jnp.maximum(-u, LEAST) / examples(target), curvature)
            memory = memory._replace(decay=decay)
        return begin(k_begin, position, target, memory=memory)

    def step(self, key, state, target):
        optimizer, n = self.optimizer(target), examples(target)
        k_noise, k_rows = jax.random.split(key)
        rows, feed = target.draw(k_rows, state.feed)
        memory, values, seen = state.memory, [], 0
        for k in jax.random.split(k_noise, self.samples):
            position, memory = sample_parameters(k, state.position, memory)
            found = target.evaluate(rows, position)
            # the prior but for its Gaussian part, which δ stands for, belongs to the loss
            loss = jax.tree.map(lambda g, d, u: -g / n - d * u, found.grad, memory.decay, position)
            memory = accumulate_gradients(loss, memory)
            values.append(found.log_density)
            seen = seen + found.n_data
        updates, memory = optimizer.update(None, memory, state.position)
        mean = tree.add(state.position, updates)
        evaluation = Eval(sum(values) / self.samples, found.grad, seen)
        new = state._replace(position=mean, memory=memory, eval=evaluation, feed=feed, count=state.count + 1)
        return new, report(new)

    def law(self) -> Law:
        return Law("wrong", 0.0, None, "none: it fits a Gaussian")


def measured(key: Key, target: Any, position: PyTree) -> PyTree:
    """h to begin with: mean squared gradients of single examples, half of it alike for all; 1 without examples."""
    if not isinstance(target, HasLikelihood):
        return jax.tree.map(jnp.ones_like, position)
    index = jax.random.randint(key, (FIRST,), 0, target.n)
    alone = jax.tree.map(lambda u: jnp.take(u, index, axis=0)[:, None], target.data)
    log_p = lambda position, row: target.likelihood(position, row)[0]
    squares = jax.lax.map(lambda row: jax.tree.map(jnp.square, jax.grad(log_p)(position, row)), alone)
    found = jax.tree.map(lambda u: jnp.mean(u, axis=0), squares)
    alike = sum(jnp.sum(u) for u in jax.tree.leaves(found)) / tree.size(position)
    return jax.tree.map(lambda u: 0.5 * (u + alike) + LEAST, found)
