r"""Any BlackJAX algorithm as a kernel; NUTS is what users expect as the exact reference.

The algorithm's own state is kept in `memory`, its parameters in the fields, so they sweep, tune and serialise like
any other kernel's. The temperature reaches it as the target p^(1/T).

BlackJAX's stochastic gradient samplers take a gradient estimator and a mini-batch, and T as an argument; `Minibatched`
drives them as documented. What version 1.7 does with T:

    sgld     x' = x + h ĝ + √(2 T h) ξ, as SGLD here.
    sgnht    as SGNHT here, but position moves first, by the old momentum.
    sghmc    a call draws m ~ N(0, I), whatever T, then takes L steps, all on one mini-batch,
             x += h m,  m += h ĝ(old x) − h α m + √(2 α T h) ξ.
             T enters only through friction, which in a call acts for a time L h. To leading order in h a call is
             x' = x + ε ĝ + √(2 ε L/(L − 1)) ξ,  ε = h² L (L − 1)/2,
             so as h → 0 it samples p^((L−1)/L) for every T: with the default L = 10 a variance 1.11× that of p, and the
             temperature ignored; with L = 1 ĝ is never felt.
    csgld    is not driven here: its energy bins and the gain of its histogram must be chosen for the target.

References
----------
Cabezas et al. (2024), BlackJAX: composable Bayesian inference in JAX.
Hoffman & Gelman (2014), The No-U-Turn sampler, alg. 3.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from langevin.core import tree
from langevin.core.kernel import Audited, Kernel, audited, kernel, report
from langevin.core.record import positive, record, static
from langevin.core.target import HasBatches, HasDensity, examples
from langevin.core.types import Eval, Law, State


def _import():
    try:
        import blackjax
    except ImportError:
        raise ImportError("this kernel needs BlackJAX: pip install 'langevin[blackjax]'.") from None
    return blackjax


class _Adapted(Kernel):
    """What both kernels share: BlackJAX's (init, step) around a log density."""

    temperature: Any
    requires = HasDensity

    def algorithm(self, log_density, position) -> Any:
        raise NotImplementedError

    def _build(self, target, position):
        return self.algorithm(lambda position: target.log_density(position) / self.temperature, position)

    def init(self, key, position, target):
        k_feed, k_init = jax.random.split(key)
        built = self._build(target, position)
        try:
            inner = built.init(position)
        except TypeError:  # some algorithms draw their momentum at the start
            inner = built.init(position, k_init)
        zero = jnp.zeros((), jnp.int32)
        return State(position, (), inner, self._eval(inner, position, target), target.start(k_feed), zero)

    def step(self, key, state, target):
        inner, info = self._build(target, state.position).step(key, state.memory)
        evaluation = self._eval(inner, inner.position, target)
        new = state._replace(position=inner.position, memory=inner, eval=evaluation, count=state.count + 1)
        n_grad = getattr(info, "num_integration_steps", 1)
        acceptance = jnp.nan_to_num(jnp.asarray(getattr(info, "acceptance_rate", 1.0)), nan=0.0)
        return new, report(new, acceptance=acceptance, n_grad=n_grad)

    def _eval(self, inner, position, target) -> Eval:
        value = getattr(inner, "logdensity", None)
        grad = getattr(inner, "logdensity_grad", None)
        value = target.log_density(position) if value is None else value * self.temperature
        grad = tree.zeros_like(position) if grad is None else tree.scale(self.temperature, grad)
        return Eval(jnp.asarray(value), grad, jnp.asarray(examples(target), jnp.int32))


@kernel
class NUTS(_Adapted):
    """The No-U-Turn sampler of BlackJAX.

    step_size: h of the leapfrog.
    temperature: T; the chain targets p^(1/T).
    inverse_mass: a vector (diagonal) or matrix over the raveled position; None for ones.
    max_doublings: a trajectory has at most 2^this steps.
    """

    step_size: float = positive(default=1e-1)
    temperature: float = positive(default=1.0)
    inverse_mass: Any = None
    max_doublings: int = static(default=10)
    audit = audited(step_size=0.4, max_doublings=4)

    def algorithm(self, log_density, position):
        mass = jnp.ones(tree.size(position)) if self.inverse_mass is None else jnp.asarray(self.inverse_mass)
        return _import().nuts(log_density, self.step_size, mass, max_num_doublings=self.max_doublings)

    def law(self) -> Law:
        return Law("exact", 0.0, None, "p^(1/T), exactly")


@kernel
class BlackJAX(_Adapted):
    """Any algorithm of BlackJAX that takes a log density: `BlackJAX("mala", {"step_size": 0.1})`.

    name: its name in the blackjax module.
    parameters: its keyword arguments that are numbers or arrays.
    temperature: T; the chain targets p^(1/T).
    options: its other keyword arguments, as a tuple of (name, value) pairs.
    """

    name: str = static(default="mala")
    parameters: Any = None
    temperature: float = positive(default=1.0)
    options: tuple = static(default=())
    audit = Audited(
        {
            "mala": lambda: adapted("mala", step_size=0.1),
            "sgld": lambda: adapted("sgld", step_size=0.05),
            "sghmc": lambda: adapted("sghmc", step_size=0.1),
            "sgnht": lambda: adapted("sgnht", step_size=0.1, alpha=2.0),
        }
    )

    def algorithm(self, log_density, position):
        builder: Callable | None = getattr(_import(), self.name, None)
        if builder is None:
            raise ValueError(f"BlackJAX: there is no algorithm {self.name!r} in the installed blackjax.")
        given = {**(self.parameters or {"step_size": 1e-2}), **dict(self.options)}
        needed = inspect.signature(getattr(builder, "differentiable", builder)).parameters
        if "inverse_mass_matrix" in needed:  # ones, unless told otherwise
            given.setdefault("inverse_mass_matrix", jnp.ones(tree.size(position)))
        return builder(log_density, **given)

    def law(self) -> Law:
        return Law("exact", 0.0, None, "whatever BlackJAX's algorithm has; p^(1/T) for its Metropolis-adjusted ones")


@record
class Minibatched(Kernel):
    """A stochastic gradient sampler of BlackJAX, driven by the target's own mini-batches.

    BlackJAX does not hand out the evaluations it makes, so `eval` is that of the start and `log_density` reads 0, or
    NaN for a chain that has diverged.

    name: "sgld", "sghmc" or "sgnht".
    step_size: h, given to every call.
    temperature: T, given to every call.
    options: keyword arguments of the builder, as a tuple of (name, value) pairs; alpha, num_integration_steps …
    """

    name: str = static(default="sgld")
    step_size: float = positive(default=1e-3)
    temperature: float = positive(default=1.0)
    options: tuple = static(default=())
    requires = HasBatches

    def _algorithm(self, target):
        grad = lambda position, batch: target.evaluate(batch, position).grad
        return getattr(_import(), self.name)(grad, **dict(self.options))

    def init(self, key, position, target):
        k_start, k_look, k_init = jax.random.split(key, 3)
        inner = self._algorithm(target).init(position, k_init)
        inner = jax.tree.map(lambda u: jnp.asarray(u, jnp.result_type(u)), inner)
        evaluation, feed = target.estimate(k_look, target.start(k_start), position)
        evaluation = evaluation._replace(log_density=jnp.zeros_like(evaluation.log_density))
        return State(position, (), inner, evaluation, feed, jnp.zeros((), jnp.int32))

    def step(self, key, state, target):
        k_batch, k_step = jax.random.split(key)
        batch, feed = target.draw(k_batch, state.feed)
        inner = self._algorithm(target).step(k_step, state.memory, batch, self.step_size, self.temperature)
        inner = jax.tree.map(lambda u, v: u.astype(v.dtype), inner, state.memory)
        position = getattr(inner, "position", inner)
        value = jnp.where(tree.finite(position), 0.0, jnp.nan)
        evaluation = state.eval._replace(log_density=value.astype(state.eval.log_density.dtype))
        new = state._replace(position=position, memory=inner, eval=evaluation, feed=feed, count=state.count + 1)
        n_grad = dict(self.options).get("num_integration_steps", 10) if self.name == "sghmc" else 1
        return new, report(new, n_grad=n_grad)

    def law(self) -> Law:
        return Law("order", 1.0, None, "p^(1/T) as h → 0, as BlackJAX documents")


ESTIMATED = ("sgld", "sghmc", "sgnht")


def adapted(name: str, **settings) -> Any:
    """BlackJAX's algorithm of that name as a kernel; unknown names and settings are ValueErrors."""
    blackjax = _import()
    if not callable(getattr(blackjax, name, None)) or not hasattr(getattr(blackjax, name), "build_kernel"):
        raise ValueError(f"BlackJAX: there is no algorithm {name!r} in the installed blackjax.")
    if name == "csgld":
        raise ValueError("BlackJAX: csgld needs energy bins chosen for its target, and is not driven by this adapter.")
    temperature = settings.pop("temperature", 1.0)
    if name == "nuts":
        return NUTS(settings.get("step_size", 0.4), temperature, max_doublings=settings.get("max_doublings", 6))
    if name in ESTIMATED:
        h = settings.pop("step_size", 0.05)
        return Minibatched(name, h, temperature, tuple(sorted(settings.items())))
    numbers = {k: v for k, v in settings.items() if isinstance(v, float)}
    options = {k: v for k, v in settings.items() if not isinstance(v, float)}
    return BlackJAX(name, numbers or None, temperature, tuple(sorted(options.items())))
