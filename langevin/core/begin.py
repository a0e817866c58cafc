"""Initial states of chains from positions, and what is refused of positions."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import sharding, tree
from langevin.core.kernel import Kernel, PerChain
from langevin.core.target import HasStructure, Target
from langevin.core.types import Key, PyTree, State


def begin_all(key: Key, kernel: Kernel | PerChain, target: Target, positions: PyTree) -> State:
    """Initial states of all chains, checked to be finite."""
    leaves = jax.tree.leaves(positions)
    sizes = {np.shape(u)[0] if np.ndim(u) else None for u in leaves}
    if not leaves or None in sizes or len(sizes) != 1:
        shapes = ", ".join(f"{n}: {np.shape(u)}" for n, u in zip(tree.names(positions), leaves, strict=True))
        lists = "; give arrays and no lists of numbers" if None in sizes else ""
        raise ValueError(
            f"run: every leaf of `start` needs the same leading chain axis; got {shapes or 'no leaves'}{lists}."
        )
    if sizes == {0}:
        raise ValueError("run: `start` has no chains; give one position or more along its first axis.")
    _check_positions(target, positions)
    group = kernel.group
    chains = len(leaves[0])
    if chains % group:
        raise ValueError(f"run: {chains} chains cannot be viewed in groups of {group}; start a multiple of it.")
    # an explicit dtype drops JAX's weak types, which would compile the loop twice
    positions = jax.tree.map(lambda u: jnp.asarray(u, jnp.asarray(u).dtype), positions)
    states = begin(key, kernel, target, positions)
    bad, values = sharding.host((_not_finite(states.eval), states.eval.log_density))
    if bad.any():
        value = float(values[bad][0])
        part = "gradient" if np.isfinite(value) else "log density"
        raise ValueError(
            f"run: the target's {part} is not finite at the start of chain {', '.join(map(str, np.flatnonzero(bad)))} "
            f"(log density {value}); start elsewhere, or look for log(0), a division by 0 or an overflow in the target."
        )
    return states


def _check_positions(target: Any, positions: PyTree) -> None:
    """Refuse positions that are no real numbers or lack the chain axis; warn of chains of single numbers."""
    for name, leaf in zip(tree.names(positions), jax.tree.leaves(positions), strict=True):
        if not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
            raise TypeError(
                f"run: `start`{f' at {name}' if name else ''} has dtype {jnp.result_type(leaf)}; positions are real "
                "numbers: cast them to float32."
            )
    shapes = [np.shape(u) for u in jax.tree.leaves(positions)]
    if isinstance(target, HasStructure):
        wanted = [u.shape for u in jax.tree.leaves(target.structure)]
        if [shape[1:] for shape in shapes] != wanted:
            missing = "; it has no chain axis: add one with start[None]" if shapes == wanted else ""
            raise ValueError(
                f"run: `start` has shapes {shapes}, but a position of this target has {wanted}, which a leading chain "
                f"axis goes before{missing}."
            )
    elif all(len(shape) == 1 for shape in shapes) and shapes[0][0] > 1:
        n = shapes[0][0]
        warnings.warn(
            f"run: every chain of `start` is a single number, and there are {n} chains; if it is one position of {n} "
            "numbers, give it a chain axis with start[None].",
            stacklevel=4,
        )


@jax.jit
def _not_finite(evaluation):
    return jax.vmap(lambda e: ~tree.finite((e.log_density, e.grad)))(evaluation)


@jax.jit
def begin(key, kernel, target, positions):
    chains, group = jax.tree.leaves(positions)[0].shape[0], kernel.group
    per_chain = isinstance(kernel, PerChain)
    inner = kernel.kernel if per_chain else kernel
    if group > 1:
        positions = jax.tree.map(lambda u: u.reshape(chains // group, group, *u.shape[1:]), positions)
    init = lambda key, kernel, position: kernel.init(key, position, target)
    keys = jax.random.split(key, chains // group)
    states = jax.vmap(init, (0, 0 if per_chain else None, 0))(keys, inner, positions)
    count = states.count.reshape(-1)[0]
    if group > 1:
        states = jax.tree.map(lambda u: u.reshape(chains, *u.shape[2:]), states._replace(count=()))
    return states._replace(count=count)
