r"""Networks of other libraries as nets that `bnn` takes: Equinox, Haiku, plain functions; Flax is in `models.flax`.

An adapted net is a tree (θ, s) with a pure function: y = f(θ, s, x). The parameters θ are its arrays, under the paths
their own library gives them (`Dense_0.kernel`, `layers.0.weight`, `mlp/~/linear_0.w`), so that `part` and `prior` of
`bnn` may name them; the other state s (running statistics, keys, tables) is `Kept`: used as it is and never sampled.
An adapter returns

- a net with values where there are values: chains start near them, as far apart as `spread` of `bnn` says;
- a function key → net where there is an initialiser: every chain starts from its own.

A posterior needs log p(y_i | f(x_i)), one number an example, the same whenever it is asked for. So the net is put into
its inference mode, and what is left is checked:

- Batch norm in training makes an output depend on the other rows of a batch, which is no likelihood of an example. It
  is refused, or with `batch_statistics="frozen"` its running statistics are used as they are. Of any net that takes a
  batch, `bnn` looks whether a row's output is the same alone and in company.
- Dropout is off. A net that still draws random numbers is refused: its value may not depend on a key.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import GetAttrKey

from langevin.core import tree
from langevin.core.types import Key, PyTree
from langevin.models.bnn import Kept

Statistics = Literal["refuse", "frozen"]


@jax.tree_util.register_pytree_with_keys_class
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Adapted:
    """A net of another library: a tree whose paths are those of its parameters.

    params: the parameters as their library lays them out, a leaf None where it is not sampled.
    kept: the other state, never sampled.
    forward: (params, kept, rows x) → outputs (row, output), with a flag `batched`; part of the program.
    output_axis: the axis of a weight that counts units, 0 or −1: `prior="fan_in"` needs it.
    """

    params: PyTree
    kept: Kept
    forward: Any
    output_axis: int = -1

    def many(self, x):
        """The outputs for rows x."""
        return self.forward(self.params, self.kept.value, x)

    def __call__(self, x):
        return self.many(x[None])[0]

    @property
    def coupled(self) -> bool:
        """Whether rows could depend on one another: the net takes a batch, and only the net knows what it does."""
        return self.forward.batched

    def __repr__(self):
        return f"Adapted({', '.join(tree.names(self.params))})"

    def tree_flatten_with_keys(self):
        # the entries of `params` are children of the net itself, so that no path begins with "params."
        entry = lambda u: u is None or u is not self.params
        pairs, structure = jax.tree_util.tree_flatten_with_path(self.params, is_leaf=entry)
        named = [(path[0] if path else GetAttrKey("params"), child) for path, child in pairs]
        return (*named, (GetAttrKey("kept"), self.kept)), (structure, self.forward, self.output_axis)

    def tree_flatten(self):
        children, program = self.tree_flatten_with_keys()
        return tuple(child for _, child in children), program

    @classmethod
    def tree_unflatten(cls, program, children):
        structure, forward, output_axis = program
        return cls(structure.unflatten(children[:-1]), children[-1], forward, output_axis)


@dataclasses.dataclass(frozen=True, eq=False)
class Fresh:
    """A function key → net; `bnn` calls it once a chain.

    build: key → net, or (key, input) → net if `shown` is not None.
    shown: how an input is cut from rows x, for initialisers that must see one.
    sample: the input; None for one of the data that `bnn` is given.
    """

    build: Callable[..., Adapted]
    shown: Callable[[Any], Any] | None = None
    sample: Any = None

    def on(self, x) -> Fresh:
        """The same, shown an input of the rows x if it needs one and was given none."""
        if self.shown is None or self.sample is not None:
            return self
        return dataclasses.replace(self, sample=self.shown(x))

    def __call__(self, key: Key) -> Adapted:
        if self.shown is None:
            return self.build(key)
        if self.sample is None:
            raise ValueError("adapters: this net is initialised on an input; pass one as `sample`, for example x[:1].")
        return self.build(key, self.sample)


# --- Equinox --------------------------------------------------------------------------------------------------------


def from_equinox(
    module: Any, state: Any = None, *, batch_statistics: Statistics = "refuse"
) -> Adapted | Callable[[Key], Adapted]:
    """An Equinox module that takes one example, in inference mode: dropout is off.

    module: the module; or a function of a key that builds it (`partial(eqx.nn.MLP, 3, 1, 8, 2)`), for a fresh
        initialisation of every chain; it may be one of `eqx.nn.make_with_state`.
    state: the `eqx.nn.State` of a module that is called as module(x, state) → (output, state); it is kept as it is.
    batch_statistics: "refuse" a net with batch norm, or take its running statistics as "frozen".

    A draw is a module again by `eqx.combine(draw["net"].params, module)`.
    """
    if not isinstance(module, eqx.Module):
        if not callable(module):
            raise TypeError(
                f"from_equinox: {type(module).__name__} is no Equinox module; use from_function or from_flax."
            )
        return Fresh(partial(_equinox_from, module, batch_statistics))
    found = _inside(module, eqx.nn.BatchNorm)
    check_statistics("from_equinox", found and "eqx.nn.BatchNorm", batch_statistics)
    if state is None and _inside(module, eqx.nn.StateIndex):
        raise ValueError(
            "from_equinox: the module has layers with state; pass the state that eqx.nn.make_with_state gave: "
            "from_equinox(module, state)."
        )
    net = eqx.nn.inference_mode(module)
    params, program = eqx.partition(net, lambda u: isinstance(u, (jax.Array, np.ndarray)))
    takes = inspect.signature(type(module).__call__).parameters.get("key")
    keyed = takes is not None and takes.default is inspect.Parameter.empty
    return Adapted(jax.tree.map(array, params), Kept(state), EquinoxForward(program, keyed), output_axis=0)


def _equinox_from(build, batch_statistics, key):
    built = by_name(build, "key", key)
    module, state = built if isinstance(built, tuple) else (built, None)
    if not isinstance(module, eqx.Module):
        raise TypeError(f"from_equinox: the function builds {type(module).__name__}, which is no Equinox module.")
    return from_equinox(module, state, batch_statistics=batch_statistics)


@dataclasses.dataclass(frozen=True)
class EquinoxForward:
    """Calls an Equinox module on every row.

    program: the module without its arrays. keyed: whether it insists on a key.
    """

    program: Any
    keyed: bool
    batched = False

    def __call__(self, params, state, x):
        net = eqx.combine(params, self.program)
        if not self.keyed:
            return net.many(x) if hasattr(net, "many") else jax.vmap(lambda row: _first(net, row, state))(x)
        call = lambda key: jax.vmap(lambda row: _first(net, row, state, key=key))(x)
        return without_chance("from_equinox", call, jax.random.key(0))


def _first(net, row, state, **options):
    if state is None:
        return net(row, **options)
    # a layer that sets a state makes the old object unusable: every call gets its own
    return net(row, jax.tree.map(lambda u: u, state), **options)[0]


def _inside(module, kind) -> bool:
    is_kind = lambda u: isinstance(u, kind)
    return any(map(is_kind, jax.tree.leaves(module, is_leaf=is_kind)))


# --- functions, Haiku -----------------------------------------------------------------------------------------------


def from_function(
    apply: Callable[[PyTree, Any], Any],
    params: PyTree = None,
    *,
    init: Callable | None = None,
    sample: Any = None,
    batched: bool = True,
) -> Adapted | Callable[[Key], Adapted]:
    """Any function apply(params, x) of a tree of arrays and a batch: a Haiku net, or one's own.

    params: where all chains start near.
    init: key → params, or (key, input) → params as Haiku has it: every chain is initialised afresh.
    sample: an input for `init` if it takes one; `bnn` shows it one of its data otherwise.
    batched: whether x is a batch (row, …) or one example. An output must depend on its own row only.

    Haiku: net = hk.without_apply_rng(hk.transform(f)), then from_function(net.apply, init=net.init). Batch norm
    (hk.transform_with_state) with its statistics frozen: from_function(lambda params, x: net.apply(params, state, None,
    x, is_training=False)[0], params).
    """
    _check_apply(apply)
    if (params is None) == (init is None):
        raise ValueError(
            "from_function: give `params` to start near them or `init` to initialise every chain, one of the two."
        )
    forward = FunctionForward(apply, batched)
    finish = lambda params: Adapted(_arrays(params), Kept(None), forward)
    if init is None:
        return finish(params)
    if len(_required(init)) < 2:
        return Fresh(lambda key: finish(init(key)))
    return Fresh(lambda key, x: finish(init(key, x)), (lambda x: x[:1]) if batched else (lambda x: x[0]), sample)


@dataclasses.dataclass(frozen=True)
class FunctionForward:
    """Calls a function of parameters and inputs. apply: the function. batched: whether it takes a batch."""

    apply: Callable
    batched: bool

    def __call__(self, params, kept, x):
        try:
            return self.apply(params, x) if self.batched else jax.vmap(partial(self.apply, params))(x)
        except ValueError as error:
            if type(error).__name__ == "MissingRNGError":  # Haiku's, which is not imported for this
                raise ValueError(chance("from_function")) from error
            raise


def _check_apply(apply) -> None:
    """Refuse a function that wants more than parameters and inputs, in one sentence."""
    wants = _required(apply)
    if "rng" in wants and "state" in wants:
        raise ValueError(
            "from_function: apply wants a state and an rng, as hk.transform_with_state has it, which a likelihood does "
            "not change or draw; keep the state fixed: lambda params, x: net.apply(params, state, None, x)[0]."
        )
    if "rng" in wants:
        raise ValueError(
            "from_function: apply wants an rng, as hk.transform has it, but a likelihood has no randomness of its own; "
            "pass hk.without_apply_rng(net).apply, with dropout off."
        )
    if len(wants) > 2:
        raise ValueError(
            f"from_function: apply is called as apply(params, x), but it wants {', '.join(wants)}; "
            "give the others values by functools.partial or a lambda."
        )


def _required(fn: Callable) -> list[str]:
    """The arguments a function cannot be called without."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):  # a builtin
        return []
    without = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is inspect.Parameter.empty and p.kind not in without]


# --- what all share -------------------------------------------------------------------------------------------------


def by_name(build: Callable, name: str, value: Any) -> Any:
    """build(name=value) where it takes an argument of that name, build(value) where not."""
    parameters = inspect.signature(build).parameters
    named = name in parameters or any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    return build(**{name: value}) if named else build(value)


def check_statistics(where: str, found: Any, choice: str) -> None:
    if choice not in ("refuse", "frozen"):
        raise ValueError(f"{where}: batch_statistics is {choice!r}; it must be 'refuse' or 'frozen'.")
    if found and choice == "refuse":
        raise ValueError(
            f"{where}: the net has batch norm ({found}), by which an output depends on the other rows of its batch and "
            "is no likelihood of one example; pass batch_statistics='frozen' to use the running statistics as they are."
        )


def without_chance(where: str, call: Callable, keys: PyTree) -> Any:
    """call(keys), refused if its value depends on them: mapped over keys, it must not be mapped itself."""
    if not jax.tree.leaves(keys):
        return call(keys)
    try:
        return jax.vmap(call, out_axes=None)(jax.tree.map(lambda k: k[None], keys))
    except ValueError as error:
        if "out_axes" in str(error):
            raise ValueError(chance(where)) from error
        raise


def chance(where: str) -> str:
    """What a net is told that needs random numbers."""
    return (
        f"{where}: the net draws random numbers in inference mode too, but a likelihood must be the same at every "
        "call; switch them off (dropout: deterministic=True, inference=True or a rate of 0)."
    )


def _arrays(params: PyTree) -> PyTree:
    try:
        return jax.tree.map(array, params)
    except TypeError as error:
        raise TypeError(
            f"from_function: params must be a tree of arrays ({error}); give apply its other values by "
            "functools.partial."
        ) from None


def array(u: Any) -> jax.Array:
    """A JAX array of a fixed type, also of a Python number."""
    if isinstance(u, jax.Array):
        return u
    u = jnp.asarray(u)
    return jax.lax.convert_element_type(u, u.dtype)
