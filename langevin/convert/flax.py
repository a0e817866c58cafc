r"""Flax networks as nets that `bnn` takes, NNX and Linen; see `convert.adapters` for what an adapted net is.

NNX: the values of a module are split by their type, (θ; statistics, keys, rest), θ its `nnx.Param`, and merged with its
graph at every call. Linen: θ is the collection "params" of its variables, all other collections stay as they are. Both
act on whole batches and are called once on a batch.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import jax

from langevin.convert.adapters import (
    Adapted,
    Fresh,
    Statistics,
    array,
    by_name,
    chance,
    check_statistics,
    without_chance,
)
from langevin.core.types import Key
from langevin.nets.bnn import Kept

# arguments by which nets are told to train or not, and what they are told here
INFERENCE = {
    "train": False,
    "training": False,
    "is_training": False,
    "deterministic": True,
    "inference": True,
    "use_running_average": True,
}
IN_TRAINING = (
    "from_flax: the net's batch norm is still in training mode and updates its statistics; build the net with "
    "use_running_average=True, or pass the argument of its call that says so: from_flax(…, name=value)."
)


def from_flax(
    module: Any,
    variables: Any = None,
    sample: Any = None,
    *,
    batch_statistics: Statistics = "refuse",
    **call: Any,
) -> Adapted | Callable[[Key], Adapted]:
    """A Flax network that takes a batch, in inference mode: dropout is off.

    module: an NNX module, whose `nnx.Param` are the parameters; a function of `rngs` that builds one
        (`partial(Net, 3, 1)`), for a fresh initialisation of every chain; or a Linen module.
    variables: of a Linen module, what `module.init` returned or training left: "params" are the parameters, all other
        collections are kept. Without them every chain is initialised afresh.
    sample: a batch of inputs to initialise a Linen module on; `bnn` shows it one row of its data otherwise.
    batch_statistics: "refuse" a net with batch norm, or take its running statistics as "frozen".
    call: arguments of the call besides the inputs. `train`, `training`, `is_training`, `deterministic`, `inference`
        and `use_running_average` are set for inference where the net has them.
    """
    from flax import linen, nnx

    if isinstance(module, linen.Module):
        return _linen(module, variables, sample, batch_statistics, call)
    if variables is not None or sample is not None:
        raise TypeError(
            "from_flax: `variables` and `sample` are for Linen modules; an NNX module holds its own values."
        )
    if isinstance(module, nnx.Module):
        return _nnx(module, batch_statistics, call)
    if not callable(module) or (isinstance(module, type) and issubclass(module, linen.Module)):
        raise TypeError(
            f"from_flax: {getattr(module, '__name__', type(module).__name__)} is no Flax module; pass an instance of "
            "nnx.Module or linen.Module, or a function of `rngs` that builds an nnx.Module."
        )
    return Fresh(partial(_nnx_from, module, batch_statistics, call))


def _nnx_from(build, batch_statistics, call, key):
    from flax import nnx

    built = by_name(build, "rngs", nnx.Rngs(key))
    if not isinstance(built, nnx.Module):
        raise TypeError(f"from_flax: the function builds {type(built).__name__}, which is no nnx.Module.")
    return _nnx(built, batch_statistics, call)


def _nnx(module, batch_statistics, call) -> Adapted:
    from flax import nnx

    net = nnx.merge(*nnx.split(module))  # `eval` works in place; the user's own module stays as it is
    net.eval()
    graph, *states = nnx.split(net, nnx.Param, nnx.BatchStat, nnx.RngKey, ...)
    params, statistics, keys, rest = map(nnx.to_pure_dict, states)
    check_statistics("from_flax", jax.tree.leaves(statistics) and "nnx.BatchStat", batch_statistics)
    options = tuple((_inference(type(module).__call__) | call).items())
    return Adapted(params, Kept((statistics, keys, rest)), NNXForward(graph, options))


@dataclasses.dataclass(frozen=True)
class Forward:
    """Calls a module on a batch. module: a Linen module, or the graph of an NNX one. options: arguments of the call."""

    module: Any
    options: tuple
    batched = True


class NNXForward(Forward):
    """Calls an NNX module, whose graph is without its values."""

    def __call__(self, params, kept, x):
        from flax import nnx

        statistics, keys, rest = kept

        def call(keys):
            net = nnx.merge(self.module, params, statistics, keys, rest)
            out = net(x, **dict(self.options))
            after = jax.tree.leaves(nnx.to_pure_dict(nnx.state(net, nnx.BatchStat)))
            if any(a is not b for a, b in zip(after, jax.tree.leaves(statistics), strict=True)):
                raise ValueError(IN_TRAINING)
            return out

        return without_chance("from_flax", call, keys)


def _linen(module, variables, sample, batch_statistics, call):
    options = _inference(type(module).__call__) | call
    finish = partial(_linen_net, LinenForward(module, tuple(options.items())), batch_statistics)
    if variables is None:
        init = lambda key, sample: finish(module.init(key, sample, **options))
        return Fresh(init, lambda x: x[:1], sample)
    if sample is not None:
        raise TypeError("from_flax: give `variables` to start near them or `sample` to initialise anew, not both.")
    if "params" not in variables:
        raise ValueError(
            f"from_flax: `variables` has no collection 'params' but {sorted(variables)}; pass what module.init "
            "returned, or {'params': …}."
        )
    return finish(variables)


def _linen_net(forward, batch_statistics, variables) -> Adapted:
    from flax import core, linen

    parts = dict(core.unfreeze(linen.meta.unbox(variables)))
    check_statistics("from_flax", "batch_stats" in parts and "the collection batch_stats", batch_statistics)
    parts = jax.tree.map(array, parts)
    return Adapted(parts.pop("params", {}), Kept(parts), forward)


class LinenForward(Forward):
    """Calls a Linen module."""

    def __call__(self, params, kept, x):
        from flax import errors

        try:
            return self.module.apply({"params": params, **kept}, x, **dict(self.options))
        except errors.InvalidRngError as error:
            raise ValueError(chance("from_flax")) from error
        except errors.ModifyScopeVariableError as error:
            raise ValueError(IN_TRAINING) from error


def _inference(call: Callable) -> dict[str, bool]:
    """Those of the arguments of a call that tell a net not to train."""
    return {name: INFERENCE[name] for name in inspect.signature(call).parameters if name in INFERENCE}
