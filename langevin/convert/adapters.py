r"""What the adapters of other libraries share: a net as `bnn` takes it, and the checks that make it a likelihood.

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
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.tree_util import GetAttrKey

from langevin.core import tree
from langevin.core.types import Key, PyTree
from langevin.nets.bnn import Kept

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


def array(u: Any) -> jax.Array:
    """A JAX array of a fixed type, also of a Python number."""
    if isinstance(u, jax.Array):
        return u
    u = jnp.asarray(u)
    return jax.lax.convert_element_type(u, u.dtype)
