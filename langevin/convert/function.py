"""Functions apply(params, x), such as Haiku nets, as nets that `bnn` takes; see `convert.adapters`."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import jax

from langevin.convert.adapters import Adapted, Fresh, array, chance
from langevin.core.types import Key, PyTree
from langevin.nets.bnn import Kept


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


def _arrays(params: PyTree) -> PyTree:
    try:
        return jax.tree.map(array, params)
    except TypeError as error:
        raise TypeError(
            f"from_function: params must be a tree of arrays ({error}); give apply its other values by "
            "functools.partial."
        ) from None
