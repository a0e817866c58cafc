"""What a saved posterior needs to go on: its kernel, and its state on the structure that kernel and target make."""

from __future__ import annotations

import warnings
from typing import Any

import jax

from langevin.core.begin import begin
from langevin.core.files import StoreError
from langevin.core.serialize import Unstored, decode, encode
from langevin.core.types import PyTree, State


def reseat(state: State, kernel: Any, target: Any, position: Any = None) -> State:
    """The state on the structure that this kernel makes on this target: a loaded one may have lost named nodes.

    position: of that structure; the state's own by default.
    """
    position = state.position if position is None else position
    try:
        made = jax.eval_shape(begin, jax.random.key(0), kernel, target, position)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise TypeError(
            f"posterior: the target does not take these positions ({type(error).__name__}); load them with `like`, "
            "a position of one chain, or look above for what the target says."
        ) from error
    if jax.tree.structure(made) == jax.tree.structure(state):  # type: ignore[operator]
        return state
    leaves, wanted = jax.tree.leaves(state), jax.tree.leaves(made)
    if [u.shape for u in leaves] != [u.shape for u in wanted]:
        raise TypeError("posterior: its state does not fit this kernel and target; sample anew from its positions.")
    return jax.tree.unflatten(jax.tree.structure(made), leaves)


def storable(kernel: Any) -> Any:
    """The kernel, or what to store in its place where it holds code; that is said now, not when it is missed."""
    if isinstance(kernel, Unstored):
        return {"sentence": kernel.sentence, "text": kernel.text}
    lost = encode(kernel).lost
    if not lost:
        return kernel
    field, what = next(iter(lost.items()))
    sentence = (
        f"posterior: the kernel's {field or 'value'} is {what}, code that a file cannot hold; use a record in its "
        "place (a schedule of langevin.schedules, samplers.optimize.Adam, or a class of your own with @record), or "
        "give the kernel again after loading: dataclasses.replace(posterior, kernel=…)."
    )
    warnings.warn(sentence, stacklevel=4)
    return {"sentence": sentence, "text": repr(kernel)}


def loaded_kernel(body: Any, arrays: list) -> Any:
    """A loaded kernel, or what says why it is not there."""
    try:
        kernel = decode(body, arrays)
    except StoreError as error:
        sentence = f"{error} Or give the kernel to what was loaded: dataclasses.replace(posterior, kernel=…)."
        return Unstored(sentence, "a kernel that is not known here")
    return Unstored(**kernel) if isinstance(kernel, dict) else kernel


def onto(x: PyTree, like: PyTree) -> PyTree:
    leaves, wanted = jax.tree.leaves(x), len(jax.tree.leaves(like))
    if len(leaves) != wanted:
        raise StoreError(f"posterior: a position has {len(leaves)} arrays and `like` {wanted}; they do not fit.")
    return jax.tree.unflatten(jax.tree.structure(like), leaves)
