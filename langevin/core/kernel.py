"""How a chain moves: the one base class of kernels, the base of kernels made of kernels, the registry, shared steps.

A kernel is a record: its fields are its hyperparameters. It may have `group > 1`: the chain axis is then viewed as
(chain/group, group), and `init` and `step` see a leading group axis on everything but `count`, with one key a group.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp

from langevin.core import display, noise, tree
from langevin.core import record as records
from langevin.core.record import nonnegative, positive, record, static
from langevin.core.schedule import Schedule, at
from langevin.core.target import HasDensity, Target, need
from langevin.core.types import Info, Key, Law, PyTree, Scalar, State

K = TypeVar("K")


class Audited(NamedTuple):
    """What the audit runs a kernel with.

    variants: name → fields of the kernel, or a function that builds one; "" is the kernel under its own name.
    excluded: why the kernel is not audited; empty if it is.
    """

    variants: Mapping[str, Mapping[str, Any] | Callable[[], Any]] = {}
    excluded: str = ""


def audited(*, excluded: str = "", variants: Mapping[str, Any] | None = None, **fields: Any) -> Audited:
    """The settings of an audit: the kernel's fields, and variants by name."""
    return Audited({} if excluded else {"": fields, **(variants or {})}, excluded)


class Kernel:
    """Abstract: how a chain moves. A subclass is a record and gives `init`, `step` and `law`.

    group: chains that move together; the chain axis is viewed as (chain/group, group).
    stride: by how much one step advances `count`.
    requires: what the target must be able to do; `HasDensity`: the exact density, so mini-batches are refused.
    audit: what `langevin audit` runs it with.
    """

    group: Any = 1
    stride: Any = 1
    requires: Any = Target
    audit: ClassVar[Audited] = audited()

    def init(self, key: Key, position: PyTree, target: Any) -> State:
        raise NotImplementedError

    def step(self, key: Key, state: State, target: Any) -> tuple[State, Info]:
        raise NotImplementedError

    def law(self) -> Law:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return display.record_page(self, (f"stationary distribution: {law_in_words(self)}",))


def law_in_words(kernel: Any) -> str:
    """The stationary distribution that a kernel states; nothing of what is no kernel."""
    try:
        return kernel.law().words
    except (AttributeError, NotImplementedError):  # half written, or loaded as text only
        return "not stated"


class Wrapper(Kernel):
    """Abstract: a kernel made of the kernel in its field `kernel`. What a subclass does not change is that kernel's."""

    kernel: Any
    audit = audited(excluded="it has the stationary distribution of the kernel inside it")

    @property
    def group(self) -> int:
        return self.kernel.group

    @property
    def stride(self) -> int:
        return self.kernel.stride

    @property
    def requires(self) -> type:
        return self.kernel.requires

    def init(self, key: Key, position: PyTree, target: Any) -> State:
        return self.kernel.init(key, position, target)

    def step(self, key: Key, state: State, target: Any) -> tuple[State, Info]:
        return self.kernel.step(key, state, target)

    def law(self) -> Law:
        return self.kernel.law()


KERNELS: dict[str, type[Kernel]] = {}
FOLDERS = ("langevin.samplers", "langevin.baselines")


@dataclass_transform(frozen_default=True, field_specifiers=(static, positive, nonnegative, dataclasses.field))
def kernel(cls: type[K]) -> type[K]:
    """Make `cls` a record and register it under its lower-case name."""
    made = record(cls)
    KERNELS[made.__name__.lower()] = made  # type: ignore[assignment]
    return made


def registered() -> dict[str, type[Kernel]]:
    """Every kernel of the library, by name: the folders of samplers and baselines are the registry."""
    for folder in map(importlib.import_module, FOLDERS):
        for module in pkgutil.walk_packages(folder.__path__, f"{folder.__name__}."):
            importlib.import_module(module.name)
    return KERNELS


def named(name: str) -> Any:
    """The registered kernel of that name, in any case."""
    known = registered()
    if name.lower() not in known:
        raise ValueError(f"there is no kernel named {name!r}; there are {', '.join(sorted(known))}.")
    return known[name.lower()]


@record
class PerChain(Wrapper):
    """A kernel whose numbers differ from chain to chain: every leaf has a leading chain axis.

    kernel: the kernel, its leaves stacked.
    """

    kernel: Any


def spread(kernel: Any, chains: int) -> Any:
    """The kernel with every leaf repeated for every chain: what PerChain holds."""
    return jax.tree.map(lambda u: jnp.broadcast_to(jnp.asarray(u), (chains, *jnp.shape(u))), kernel)


def admit(kernel: Any, target: Any, who: str = "run") -> None:
    """Refuse, in one sentence, what is no kernel or no target, and a target that the kernel cannot move on."""
    if not isinstance(kernel, Kernel):
        what = f"the class {kernel.__name__}; give it its settings" if isinstance(kernel, type) else repr(kernel)[:60]
        raise TypeError(f"{who}: the kernel is {what}; it must be an instance of a langevin Kernel such as SGLD(0.01).")
    if not isinstance(target, Target):
        how = "wrap a log density as Density(fn)" if callable(target) else "use Bayes, Density or a class with those"
        raise TypeError(
            f"{who}: the target is {getattr(target, '__name__', type(target).__name__)}, which has no `stochastic`, "
            f"`start` and `estimate`; {how}."
        )
    name = type(innermost(kernel)).__name__
    need(target, kernel.requires, name)
    if kernel.requires is HasDensity and target.stochastic:
        raise ValueError(
            f"{name} needs the exact density, but the target estimates it from mini-batches, on which its stationary "
            f"distribution is far from p; use all data (batch=None), or SGLD, Underdamped, SGHMC or SMILE."
        )


def check_fields(kernel: Any, fields: tuple[str, ...], who: str) -> None:
    """Refuse, in one sentence, a kernel without the fields that are to be set."""
    for field in fields:
        if not isinstance(kernel, Kernel) or field not in dir(kernel):
            raise TypeError(
                f"{who}: {type(kernel).__name__} has no field {field!r}; pass a kernel with {', '.join(fields)}."
            )


def innermost(kernel: Any) -> Any:
    """The kernel inside all wrappers."""
    return innermost(kernel.kernel) if isinstance(kernel, Wrapper) else kernel


# --- what kernels share ----------------------------------------------------------------------------------------


def begin(key: Key, position: PyTree, target: Target, aux: PyTree = (), memory: PyTree = ()) -> State:
    """A chain at `position`, its data stream opened and the first evaluation made."""
    k_start, k_eval = jax.random.split(key)
    evaluation, feed = target.estimate(k_eval, target.start(k_start), position)
    return State(position, aux, memory, evaluation, feed, jnp.zeros((), jnp.int32))


def begin_moving(key: Key, position: PyTree, target: Target, temperature: Schedule) -> State:
    """A chain at `position` whose `aux` is a momentum drawn from N(0, T)."""
    k_eval, k_aux = jax.random.split(key)
    T = at(temperature, jnp.zeros((), jnp.int32))
    return begin(k_eval, position, target, tree.scale(jnp.sqrt(T), noise.like(k_aux, position)))


def refresh(key: Key, state: State, target: Target) -> State:
    """The same chain on another target: momentum kept, evaluated anew."""
    evaluation, feed = target.estimate(key, state.feed, state.position)
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


def combine(total: Info, info: Info) -> Info:
    """The Info of a stretch and of the step after it; acceptance is summed and yet to be divided."""
    return info._replace(
        acceptance=total.acceptance + info.acceptance,
        n_grad=total.n_grad + info.n_grad,
        n_data=total.n_data + info.n_data,
        ok=total.ok & info.ok,
    )


def reduce(infos: Info) -> Info:
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


def references(cls: type) -> list[str]:
    """The entries under `References` of the module a class is defined in."""
    text = sys.modules[cls.__module__].__doc__ or ""
    tail = text.split("References\n----------\n")
    return [] if len(tail) < 2 else [" ".join(e.split()) for e in re.split(r"\n(?=\S)", tail[1].strip()) if e]


replace = records.replace
