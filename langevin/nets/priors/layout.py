"""What a prior must know of a net: the names, shapes and groups of its arrays, and standard deviations by a rule."""

from __future__ import annotations

import math
from fnmatch import fnmatch
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from langevin.core import tree
from langevin.core.types import PyTree

Group = Literal["input", "unit", "weight"]
GROUPS = ("input", "unit", "weight")


class Layout(NamedTuple):
    """The arrays of a net that are sampled, in the order of its leaves.

    names: their paths.
    shapes: of each.
    output_axis: the axis of a weight that counts units; None where the number of axes decides it.
    learned: further numbers of the position, such as log_noise; each N(0, 1).
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    output_axis: int | None = None
    learned: tuple[str, ...] = ()

    @classmethod
    def of(cls, net: PyTree, learned: tuple[str, ...] = ()) -> Layout:
        """The layout of arrays, or of their shapes."""
        shapes = tuple(tuple(u.shape) for u in jax.tree.leaves(net))
        return cls(tuple(tree.names(net)), shapes, getattr(net, "output_axis", None), tuple(learned))

    def matrices(self) -> list[str]:
        """Names of the arrays of two or more axes: weights; the others are biases and the like."""
        return [name for name, shape in zip(self.names, self.shapes, strict=True) if len(shape) > 1]

    def groups(self, by: Group) -> dict[str, tuple[int, ...]]:
        """For every weight the shape, broadcast to its own, of a number for each input, unit or weight."""
        found = {}
        for name, shape in zip(self.names, self.shapes, strict=True):
            if len(shape) > 1:
                out = unit_axis(shape, self.output_axis)
                axis = {"unit": out, "input": (1 if out == 0 else len(shape) - 2), "weight": None}[by]
                found[name] = shape if axis is None else tuple(n if i == axis else 1 for i, n in enumerate(shape))
        return found


def unit_axis(shape: tuple[int, ...], output_axis: int | None) -> int:
    """The axis that counts units: the last of a matrix and the first of more axes, unless the net says otherwise."""
    if output_axis is not None:
        return output_axis % len(shape)
    return 0 if len(shape) > 2 else len(shape) - 1


def prior_scales(sampled: PyTree, rule: Any) -> PyTree:
    """One standard deviation per leaf: a number, "fan_in", or a dict of path patterns (the first match counts)."""
    leaves, structure = jax.tree.flatten(sampled)
    scales = []
    for name, leaf in zip(tree.names(sampled), leaves, strict=True):
        if isinstance(rule, dict):
            match = [rule[name]] if name in rule else [s for pattern, s in rule.items() if fnmatch(name, pattern)]
            if not match:
                raise ValueError(f"bnn: no pattern of `prior` matches the parameter {name!r}; add one, or '*'.")
            scale = match[0]
        elif isinstance(rule, str) and rule == "fan_in":
            scale = 1.0 / math.sqrt(fan_in(leaf, getattr(sampled, "output_axis", None))) if leaf.ndim > 1 else 1.0
        else:
            scale = rule
        if not isinstance(scale, jax.core.Tracer):
            scale = float(scale)
            if not scale > 0:
                raise ValueError(f"bnn: the prior of {name} has standard deviation {scale:g}; it must be positive.")
        scales.append(jnp.asarray(scale, jnp.float32))
    return jax.tree.unflatten(structure, scales)


def fan_in(leaf: Any, output_axis: int | None) -> int:
    """How many inputs a unit has; `output_axis` where a net says which axis counts its units."""
    if output_axis is not None:
        return math.prod(leaf.shape) // leaf.shape[output_axis]
    return math.prod(leaf.shape[1:]) if leaf.ndim > 2 else leaf.shape[0]
