"""The Kernel protocol: how a chain moves; the registry; and what kernels share.

A kernel is a record: its fields are its hyperparameters. It may carry `group > 1`: the chain axis is then viewed as
(chain/group, group), and `init` and `step` see a leading group axis on everything but `count`, with one key a group.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
import sys
import warnings
from typing import Any, Protocol, dataclass_transform, runtime_checkable

import jax
import jax.numpy as jnp

from langevin.core import record as records
from langevin.core import tree
from langevin.core.record import is_static, nonnegative, positive, record, static
from langevin.core.target import Target, look
from langevin.core.types import Info, Key, Law, PyTree, Scalar, State


@runtime_checkable
class Kernel(Protocol):
    def init(self, key: Key, position: PyTree, target: Target) -> State: ...
    def step(self, key: Key, state: State, target: Target) -> tuple[State, Info]: ...
    def law(self) -> Law: ...


KERNELS: dict[str, type] = {}


@dataclass_transform(frozen_default=True, field_specifiers=(static, positive, nonnegative, dataclasses.field))
def kernel(cls):
    """Make `cls` a record and register it under its lower-case name."""
    made = record(cls)
    if not hasattr(made, "group"):
        made.group = 1
    KERNELS[made.__name__.lower()] = made
    return made


def named(name: str) -> type:
    """The registered kernel of that name, in any case."""
    samplers = importlib.import_module("langevin.samplers")
    for module in pkgutil.iter_modules(samplers.__path__):
        importlib.import_module(f"langevin.samplers.{module.name}")
    if name.lower() not in KERNELS:
        raise ValueError(f"there is no kernel named {name!r}; there are {', '.join(sorted(KERNELS))}.")
    return KERNELS[name.lower()]


@record
class PerChain:
    """A kernel whose numbers differ from chain to chain: every leaf has a leading chain axis.

    kernel: the kernel, its leaves stacked.
    """

    kernel: Any

    @property
    def group(self) -> int:
        return getattr(self.kernel, "group", 1)

    def law(self) -> Law:
        return self.kernel.law()


def spread(kernel: Any, chains: int) -> Any:
    """The kernel with every leaf repeated for every chain: what PerChain holds."""
    return jax.tree.map(lambda u: jnp.broadcast_to(jnp.asarray(u), (chains, *jnp.shape(u))), kernel)


# --- what kernels share ----------------------------------------------------------------------------------------


def begin(key: Key, position: PyTree, target: Target, aux: PyTree = (), memory: PyTree = ()) -> State:
    """A chain at `position`, its data stream opened and the first evaluation made."""
    k_start, k_look = jax.random.split(key)
    evaluation, feed = look(k_look, target, target.start(k_start), position)
    return State(position, aux, memory, evaluation, feed, jnp.zeros((), jnp.int32))


def refresh(key: Key, state: State, target: Target) -> State:
    """The same chain on another target: momentum kept, evaluated anew."""
    evaluation, feed = look(key, target, state.feed, state.position)
    return state._replace(eval=evaluation, feed=feed)


def report(state: State, *, acceptance=1.0, energy_error=0.0, log_weight=0.0, n_grad=1, n_data=None) -> Info:
    """The Info of a step that ended in `state`. A gradient that is not finite shows in the next log density."""
    f32 = lambda v: jnp.asarray(v, jnp.float32)
    n_grad = jnp.asarray(n_grad, jnp.int32)
    return Info(
        log_density=f32(state.eval.log_density),
        log_weight=f32(log_weight),
        acceptance=f32(acceptance),
        energy_error=f32(energy_error),
        n_grad=n_grad,
        n_data=jnp.asarray(state.eval.n_data * n_grad if n_data is None else n_data, jnp.int32),
        ok=jnp.isfinite(state.eval.log_density),
    )


def combined(total: Info, info: Info, *, weights: str = "last") -> Info:
    """The Info of a stretch and of the step after it; acceptance is summed and yet to be divided."""
    return info._replace(
        log_weight=info.log_weight if weights == "last" else total.log_weight + info.log_weight,
        acceptance=total.acceptance + info.acceptance,
        n_grad=total.n_grad + info.n_grad,
        n_data=total.n_data + info.n_data,
        ok=total.ok & info.ok,
    )


def reduced(infos: Info) -> Info:
    """The Info of several steps as one: last of what is a state, mean of rates, sums of costs, all of ok."""
    last = Info(*(u[-1] for u in infos))
    return last._replace(
        acceptance=jnp.mean(infos.acceptance, axis=0),
        n_grad=jnp.sum(infos.n_grad, axis=0),
        n_data=jnp.sum(infos.n_data, axis=0),
        ok=jnp.all(infos.ok, axis=0),
    )


TOLD: set[str] = set()


def warn_once(sentence: str) -> None:
    """Say it to the user, once a process: kernels are rebuilt by every `replace`."""
    if sentence not in TOLD:
        TOLD.add(sentence)
        warnings.warn(sentence, UserWarning, stacklevel=5)  # where the kernel was built


def metropolis(key: Key, energy_error: Scalar, new: State, old: State) -> tuple[State, Scalar]:
    """Accept `new` with probability min(1, e^−ΔH); NaN rejects. Position, momentum and evaluation go together."""
    probability = jnp.exp(-jnp.maximum(jnp.where(jnp.isnan(energy_error), jnp.inf, energy_error), 0.0))
    accept = jax.random.uniform(key) < probability
    position, aux, evaluation = tree.where(accept, (new.position, new.aux, new.eval), (old.position, old.aux, old.eval))
    return new._replace(position=position, aux=aux, eval=evaluation), probability


# --- reading a kernel's own words: for the command line, the report and the docs ----------------------------------


@dataclasses.dataclass(frozen=True)
class Described:
    """One field of a kernel."""

    name: str
    default: Any
    static: bool
    words: str


def describe(cls: type) -> list[Described]:
    """The fields of a record with their meaning, from the `field: meaning` lines of its docstring and its bases'."""
    line = re.compile(r"^(\w+): (.+(?:\n {2,}.+)*)", flags=re.M)
    words = dict(f for c in reversed(cls.__mro__) for f in line.findall(inspect.cleandoc(c.__doc__ or "")))
    return [
        Described(f.name, f.default, is_static(f), re.sub(r"\s+", " ", words.get(f.name, "")))
        for f in dataclasses.fields(cls)
    ]


def summary(cls: type) -> str:
    """The first sentence of a class docstring."""
    return (cls.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")


def references(cls: type) -> list[str]:
    """The entries under `References` of the module a class is defined in."""
    text = sys.modules[cls.__module__].__doc__ or ""
    tail = text.split("References\n----------\n")
    return [] if len(tail) < 2 else [" ".join(e.split()) for e in re.split(r"\n(?=\S)", tail[1].strip()) if e]


replace = records.replace
