r"""Any BlackJAX algorithm as a kernel; NUTS is what users expect as the exact reference.

The algorithm's own state is kept in `memory`, its parameters in the fields, so they sweep, tune and serialise like
any other kernel's. The temperature reaches it as the target p^(1/T). On a mini-batched target it sees the exact
density.

References
----------
Cabezas et al. (2024), BlackJAX: composable Bayesian inference in JAX.
Hoffman & Gelman (2014), The No-U-Turn sampler, alg. 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from langevin.core import tree
from langevin.core.kernel import kernel, report
from langevin.core.record import positive, static
from langevin.core.types import Eval, Law, State


def _import():
    try:
        import blackjax
    except ImportError:
        raise ImportError("this kernel needs BlackJAX: pip install 'langevin[blackjax]'.") from None
    return blackjax


class _Adapted:
    """What both kernels share: BlackJAX's (init, step) around a log density."""

    temperature: Any

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
        return Eval(jnp.asarray(value), grad, jnp.asarray(getattr(target, "n", 1), jnp.int32))


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

    def algorithm(self, log_density, position):
        builder: Callable | None = getattr(_import(), self.name, None)
        if builder is None:
            raise ValueError(f"BlackJAX: there is no algorithm {self.name!r} in the installed blackjax.")
        return builder(log_density, **(self.parameters or {"step_size": 1e-2}), **dict(self.options))

    def law(self) -> Law:
        return Law("exact", 0.0, None, "whatever BlackJAX's algorithm has; p^(1/T) for its Metropolis-adjusted ones")
