r"""Bayesian neural networks: a net, a prior and a likelihood as a Target.

    log p(θ | data) = Σ_leaf log N(θ_leaf; 0, s²_leaf) + Σ_i log p(y_i | f_θ(x_i)).

The position is {"net": the sampled arrays of the net (None where they stay fixed), "log_noise": log σ if it is
learned}. Prior scales are one number, a rule ("fan_in": weights s/√fan_in, biases s) or a dict of path patterns;
any subset of the parameters may be the position, chosen by path, and the rest stays as it is. Nets of other libraries
(Flax, Haiku, PyTorch, plain functions): `langevin.convert`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from functools import cached_property, partial
from typing import Any, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import display, tree
from langevin.core.record import record
from langevin.core.types import Key, PyTree
from langevin.nets.facts import facts
from langevin.nets.likelihood import OUTPUTS, Kind, Likelihood, Network, Predict
from langevin.targets.bayes import Bayes

ROUNDING = 0.02  # relative; products of a batch may be rounded as coarsely as to bfloat16


class Kept(eqx.Module):
    """Arrays of a net that are never sampled, whatever `part` says: running statistics, tables, masks.

    value: a tree of arrays.
    """

    value: PyTree


@record
class NormalPrior:
    """Independent normals around zero.

    scale: a tree like the position, one standard deviation per leaf.
    """

    scale: PyTree

    def __call__(self, position):
        def one(u, s):
            return -0.5 * jnp.sum((u / s) ** 2) - u.size * (jnp.log(s) + 0.5 * math.log(2 * math.pi))

        return sum(jax.tree.leaves(jax.tree.map(one, position, self.scale)), jnp.zeros(()))

    def expected(self, mean, variance):
        """Its mean under any distribution of positions with these moments."""

        def one(m, v, s):
            return -0.5 * jnp.sum(m**2 + v) / s**2 - m.size * (jnp.log(s) + 0.5 * math.log(2 * math.pi))

        return sum(jax.tree.leaves(jax.tree.map(one, mean, variance, self.scale)), jnp.zeros(()))


@dataclasses.dataclass(frozen=True)
class BNN:
    """A network ready to sample: target, predictions, fresh starts for chains, and a first position."""

    target: Bayes
    predict: Predict
    fresh: Callable[[Key], PyTree]
    first: Callable[[], PyTree]

    def __repr__(self) -> str:
        return f"BNN({'; '.join(f'{name}: {value}' for name, value in facts(self))})"

    def _repr_html_(self) -> str:
        return display.page("BNN", "", facts(self))

    @cached_property
    def position(self) -> PyTree:
        """The module's own values, or those it is built with by key 0."""
        return self.first()

    def starts(self, key: Key, chains: int) -> PyTree:
        """Positions (chain, …), each from its own initialisation."""
        return jax.jit(jax.vmap(self.fresh))(jax.random.split(key, chains))


def bnn(
    build: Callable[[Key], Any] | Any,
    data: tuple[Any, Any],
    *,
    kind: Kind = "gaussian",
    prior: float | str | dict[str, float] = 1.0,
    noise: float | None = None,
    center: Any = 0.0,
    batch: int | None = None,
    order: Literal["replacement", "epoch"] = "replacement",
    part: Sequence[str] = ("*",),
    spread: float = 0.01,
) -> BNN:
    """A net (a module, or a function of a key that builds one) with prior and likelihood, on data (x, y).

    y is one number an example, or (example, target): then the net has the outputs of each target's likelihood, first
    parameters first, and targets are independent given them.
    center: added to log rates of counts, a number or one for each target.
    part: patterns of parameter paths to sample (`"layers.2.*"`); the others stay at the values of the module.
    spread: the standard deviation of the chains' starts around the values of a module that is given, not built.
    """
    if kind not in get_args(Kind):
        raise ValueError(f"bnn: kind is {kind!r}; it must be one of {', '.join(get_args(Kind))}.")
    for name, values in zip("xy", data, strict=False):
        if np.asarray(values).dtype.kind not in "biufV":  # V: bfloat16 and its kin
            raise TypeError(f"bnn: {name} has dtype {np.asarray(values).dtype}; it must hold numbers.")
    x, y = jnp.asarray(data[0]), jnp.asarray(data[1])
    if not _is_net(build) and hasattr(build, "on"):
        build = build.on(x)  # an initialiser of another library may need to see an input
    built = lambda: build if _is_net(build) else eqx.filter_jit(build)(jax.random.key(0))
    module = eqx.filter_eval_shape(built)
    chosen = _chosen(module, part)
    sampled, fixed = eqx.partition(module, chosen)
    if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(fixed)):
        fixed = eqx.partition(built(), chosen)[1]  # values are asked for only where they stay: to build is to compile
    if any(callable(leaf) for leaf in jax.tree.leaves(fixed)):
        raise TypeError(
            "bnn: the net has a function among its leaves; pass from_equinox(net), or make it a static field."
        )
    network = Network(fixed, noise, jnp.asarray(center, jnp.float32), kind)
    learned = {"log_noise": jnp.log(jnp.asarray(0.3))} if kind == "gaussian" and noise is None else {}
    _check(network, {"net": sampled, **learned}, x, y)
    if getattr(module, "coupled", False) and len(x) > 1:
        _check_rows(built(), x[:2])
    scales: dict[str, Any] = {"net": prior_scales(sampled, prior)}
    if learned:
        scales["log_noise"] = jnp.ones(())
    target = Bayes(NormalPrior(scales), Likelihood(network), (x, y), batch, order)
    first = lambda: {"net": eqx.filter(built(), chosen), **learned}
    return BNN(target, Predict(network), partial(_fresh, build, chosen, learned, float(spread)), first)


def prior_scales(sampled: PyTree, rule: float | str | dict[str, float]) -> PyTree:
    """One standard deviation per leaf: a number, "fan_in", or a dict of path patterns (the first match counts)."""
    leaves, structure = jax.tree.flatten(sampled)
    scales = []
    for name, leaf in zip(tree.names(sampled), leaves, strict=True):
        if isinstance(rule, dict):
            match = [s for pattern, s in rule.items() if fnmatch(name, pattern)]
            if not match:
                raise ValueError(f"bnn: no pattern of `prior` matches the parameter {name!r}; add one, or '*'.")
            scale = match[0]
        elif rule == "fan_in":
            scale = 1.0 / math.sqrt(_fan_in(leaf, getattr(sampled, "output_axis", None))) if leaf.ndim > 1 else 1.0
        elif isinstance(rule, str):
            raise ValueError(f"bnn: prior is {rule!r}; it must be a number, 'fan_in' or a dict of path patterns.")
        else:
            scale = float(rule)
        if not scale > 0:
            raise ValueError(f"bnn: the prior of {name} has standard deviation {scale:g}; it must be positive.")
        scales.append(jnp.asarray(scale, jnp.float32))
    return jax.tree.unflatten(structure, scales)


def _fan_in(leaf, output_axis: int | None) -> int:
    """How many inputs a unit has; `output_axis` where a net says which axis counts its units."""
    if output_axis is not None:
        return math.prod(leaf.shape) // leaf.shape[output_axis]
    return math.prod(leaf.shape[1:]) if leaf.ndim > 2 else leaf.shape[0]


def _chosen(module: PyTree, part: Sequence[str]) -> PyTree:
    leaves, structure = jax.tree.flatten(module)
    kept = lambda u: isinstance(u, Kept)
    free = jax.tree.leaves(jax.tree.map(lambda u: jax.tree.map(lambda _: not kept(u), u), module, is_leaf=kept))
    names = [name if here else None for name, here in zip(tree.names(module), free, strict=True)]
    matches = lambda name: name is not None and any(fnmatch(name, p) for p in part)
    marks = [_inexact(leaf) and matches(name) for leaf, name in zip(leaves, names, strict=True)]
    if not any(marks):
        there = [name for leaf, name in zip(leaves, names, strict=True) if name is not None and _inexact(leaf)]
        raise ValueError(f"bnn: no parameter matches {tuple(part)}; there are {', '.join(there[:8])} …")
    return jax.tree.unflatten(structure, marks)


def _is_net(build: Any) -> bool:
    """Whether this is a net, which is a tree of arrays, and not a function that builds one."""
    return not isinstance(build, partial) and not jax.tree_util.all_leaves([build])


def _inexact(leaf) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.inexact)


def _fresh(build, chosen, learned, spread, key):
    if _is_net(build):
        # a given module has no initialiser: its own values, a little apart
        leaves, structure = jax.tree.flatten(eqx.filter(build, chosen))
        keys = jax.random.split(key, len(leaves))
        near = [u + spread * jax.random.normal(k, u.shape, u.dtype) for u, k in zip(leaves, keys, strict=True)]
        return {"net": jax.tree.unflatten(structure, near), **learned}
    return {"net": eqx.filter(build(key), chosen), **learned}


def _check(network: Network, position: PyTree, x, y) -> None:
    if len(x) != len(y):
        raise ValueError(f"bnn: there are {len(x)} inputs but {len(y)} targets.")
    if y.ndim != 1 and (y.ndim != 2 or y.shape[1] < 2 or network.kind == "categorical"):
        raise ValueError(f"bnn: y has shape {y.shape}; it must be one number per example: pass y.ravel().")
    for name, values in (("x", x), ("y", y)):
        bad = int(np.sum(~np.isfinite(np.asarray(values, np.float32))))  # not by JAX: a program for every shape
        if bad:
            raise ValueError(f"bnn: {name} has {bad} values that are not finite; fill them in or leave out their rows.")
    n = min(2, len(x))
    out = jax.eval_shape(network.outputs, position, x[:n])
    if not hasattr(out, "shape") or out.shape[:1] != (n,) or len(out.shape) != 2:
        raise ValueError(
            f"bnn: the net returns {getattr(out, 'shape', type(out).__name__)} for {n} examples; "
            "it must return one array (example, output)."
        )
    want = None if network.kind == "categorical" else OUTPUTS[network.kind] * math.prod(y.shape[1:])
    if want is not None and out.shape[1:] != (want,):
        raise ValueError(
            f"bnn: a {network.kind} likelihood needs {want} output(s) per example; the net gives {out.shape[1:]}."
        )
    if network.kind == "categorical" and len(y) and int(jnp.max(y)) >= out.shape[-1]:
        raise ValueError(f"bnn: the net gives {out.shape[-1]} classes, but y holds class {int(jnp.max(y))}.")


def _check_rows(net: PyTree, x) -> None:
    """Refuse a net that says another thing of an example in other company: its likelihood is no product."""
    alone, beside = eqx.filter_jit(lambda net, x: (net.many(x[:1]), net.many(x)[:1]))(net, x)
    alone, beside = alone.reshape(-1), beside.reshape(-1)
    if jnp.max(jnp.abs(alone - beside)) > ROUNDING * jnp.max(jnp.abs(jnp.stack([alone, beside]))):
        raise ValueError(
            f"bnn: the net gives {float(alone[0]):.3g} for the first example alone and {float(beside[0]):.3g} beside "
            "the second; an output must depend on its own row only, which batch norm in training breaks."
        )
