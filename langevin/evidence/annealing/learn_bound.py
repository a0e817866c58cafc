r"""Learning an annealed bound: ladder, steps, γ, mass, base and perhaps the model maximise E log mean w.

The bound of `dais` is a target itself: a position is what is learned, an evaluation one draw of the bound and its
gradient. So any Optax optimizer maximises it by the library's own loop. Nothing must be kept in range on the way, for a
position holds logits and logarithms:

    β = cumsum softmax(rises),   η = e^{log_step},   γ = σ(logit_gamma),   M = e^{log_mass},   q = N(mean, scale²).

With q learned this is DAVI; with `model` it trains a model by its own evidence; with `backward` a network learns to
take the chain back (`ldvi`). The bound stays valid at every point of the way, and what is learned is weighed
anew by `DAIS` with fresh keys.

References
----------
Zhang, Hsu, Li, Finn & Grosse (2021), Differentiable annealed importance sampling, §3.1, eq. 15 (DAVI).
Geffner & Domke (2021), MCMC variational inference via uncorrected Hamiltonian annealing, §3 (what is learned).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from langevin.core import tree
from langevin.core.record import record, static
from langevin.core.run import run
from langevin.core.target import Batched
from langevin.core.types import Batch, Eval, Feed, Key, PyTree, Scalar
from langevin.evidence.annealing.dais import Annealing, Memory, log_weights
from langevin.evidence.annealing.reversible import Reversible
from langevin.evidence.base import Normal
from langevin.evidence.weights import log_mean_exp
from langevin.samplers.optimize import Optimize
from langevin.tune.warm_start import nothing

PARTS = ("rises", "log_step", "logit_gamma", "mean", "log_scale")


def unconstrain(annealing: Annealing, base: Normal) -> dict[str, Any]:
    """An annealing and a base as numbers without bounds: a position to start from."""
    return free(annealing, base.mean) | {
        "mean": jax.tree.map(lambda u: jnp.asarray(u, float), base.mean),
        "log_scale": jax.tree.map(jnp.log, _widen(base.scale, base.mean)),
    }


def constrain(position: dict[str, Any]) -> tuple[Annealing, Normal]:
    """The annealing and the base that a position stands for."""
    return bind(position), Normal(position["mean"], jax.tree.map(jnp.exp, position["log_scale"]))


def free(annealing: Annealing, position: PyTree) -> dict[str, Any]:
    """An annealing of such positions as numbers without bounds."""
    beta = jnp.concatenate([jnp.zeros(1), annealing.beta])
    return {
        "rises": jnp.log(jnp.diff(beta)),
        "log_step": jnp.log(annealing.steps()),
        "logit_gamma": jax.scipy.special.logit(jnp.clip(jnp.asarray(annealing.gamma, float), 1e-4, 1 - 1e-4)),
        "log_mass": jax.tree.map(jnp.log, _widen(annealing.mass, position)),
    }


def bind(free: dict[str, Any]) -> Annealing:
    """The annealing that those numbers stand for."""
    beta = jnp.cumsum(jax.nn.softmax(free["rises"])).at[-1].set(1.0)
    gamma, mass = jax.nn.sigmoid(free["logit_gamma"]), jax.tree.map(jnp.exp, free["log_mass"])
    return Annealing(beta, jnp.exp(free["log_step"]), gamma, mass)


def _widen(value: Any, position: PyTree) -> PyTree:
    """A number or a tree as a tree of arrays like the position."""
    wide = lambda v, u: jnp.broadcast_to(jnp.asarray(v, float), jnp.shape(u))
    return jax.tree.map(wide, tree.fill(value, position), position)


@record
class Bound(Batched):
    """The bound as a target over what is learned; an evaluation draws S chains.

    target: whose evidence is bounded, or with `model` what it is built with.
    held: the position's parts that stay as they are.
    model: (target, parameters) → target, for a model that learns too; a module-level function.
    particles: S.
    draws: how many bounds, of S chains each, are averaged; a network needs many.
    memory: what the gradient keeps.
    """

    target: Any
    held: Any
    model: Callable | None = static(default=None)
    particles: int = static(default=8)
    draws: int = static(default=1)
    memory: Memory | Reversible = static(default="auto")
    stochastic = True

    def start(self, key: Key) -> Feed:
        return ()

    def draw(self, key: Key, feed: Feed, *, fraction: float = 1.0) -> tuple[Batch, Feed]:
        return key, feed

    def evaluate(self, batch: Batch, position: PyTree) -> Eval:
        value, grad = jax.value_and_grad(self.value, argnums=1)(batch, position)
        return Eval(value, grad, jnp.asarray(self.particles * self.draws, jnp.int32))

    def value(self, key: Key, position: PyTree) -> Scalar:
        """One draw of the bound."""
        annealing, base = constrain(self.held | position["annealing"])
        target = self.target if self.model is None else self.model(self.target, position["model"])
        how: dict[str, Any] = dict(memory=self.memory, backward=position.get("backward"))
        log_w = log_weights(key, target, base, annealing, particles=self.particles * self.draws, **how)
        return jnp.mean(log_mean_exp(log_w.reshape(self.draws, self.particles), axis=1))

    def log_density(self, position: PyTree) -> Scalar:
        return self.value(jax.random.key(0), position)

    def parts(self, batch: Batch, n: int) -> tuple[Batch, ...]:
        return (batch,) * n


class Learned(NamedTuple):
    """What maximising the bound found.

    annealing, base: to weigh anew with `dais.log_weights`.
    model: the parameters learned, or None.
    trace: draws of the bound on the way.
    backward: the backward kernel learned, or None.
    """

    annealing: Annealing
    base: Normal
    model: PyTree
    trace: np.ndarray
    backward: PyTree = None


def learn_bound(
    key: Key,
    target: Any,
    base: Normal,
    annealing: Annealing,
    *,
    steps: int = 1000,
    rate: float = 1e-2,
    particles: int = 8,
    draws: int = 1,
    parts: tuple[str, ...] = PARTS,
    model: Callable | None = None,
    parameters: PyTree = None,
    backward: PyTree = None,
    memory: Memory | Reversible = "auto",
) -> Learned:
    """Climb the bound by Adam.

    particles: S, whose mean weight is bounded; 1 maximises the mean log weight.
    draws: such bounds that are averaged in a step.
    parts: what is learned, of rises, log_step, logit_gamma, log_mass, mean and log_scale; the rest stays.
    model: (target, parameters) → target, and the parameters it begins with.
    backward: a backward kernel to learn, such as `Score.begin(key, base)`.
    memory: what the gradient keeps, as in `dais.log_weight`; γ is traced here, so Reversible names its fraction.
    """
    whole = unconstrain(annealing, base)
    unknown = [name for name in parts if name not in whole]
    if unknown:
        raise ValueError(f"learn_bound: there is no part {unknown[0]!r}; there are {', '.join(whole)}.")
    held = {k: v for k, v in whole.items() if k not in parts}
    position: dict[str, Any] = {"annealing": {k: whole[k] for k in parts}}
    if model is not None:
        position["model"] = parameters
    if backward is not None:
        position["backward"] = backward
    climb = Bound(target, held, model, particles, draws, memory)
    starts = jax.tree.map(lambda u: jnp.asarray(u)[None], position)
    out = run(key, Optimize(_adam(rate)), climb, starts, draws=steps, chunk=min(steps, 200), collect=nothing)
    end = jax.tree.map(lambda u: u[0], out.states.position)
    found, q = constrain(held | end["annealing"])
    return Learned(found, q, end.get("model"), np.asarray(out.info.log_density)[0], end.get("backward"))


@cache
def _adam(rate: float) -> optax.GradientTransformation:
    """Built once: another object would compile anew."""
    return optax.adam(rate)
