"""Equinox modules as nets that `bnn` takes; see `convert.adapters` for what an adapted net is."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import numpy as np

from langevin.convert.adapters import Adapted, Fresh, Statistics, array, by_name, check_statistics, without_chance
from langevin.core.types import Key
from langevin.nets.bnn import Kept


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
