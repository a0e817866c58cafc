r"""Priors of networks as records: densities over positions that can be drawn from.

A prior is given by its settings, and `on(net)` is that prior for a net. A position is {"net": an array for every array
of the net, "prior": what the prior adds, if anything, "log_noise": log σ if it is learned}. Two kinds of priors are
here:

    PerWeight      "net" holds the weights w; they are independent, log p(w) = Σ_j log p_j(w_j)
    NonCentered    "net" holds z, and all of the position is N(0, I); w = T(position) is a scale mixture of normals

With z and hyperparameters independent a priori, the funnel between a scale and its weights is gone from the prior, its
mean under any distribution follows from moments (`expected`), and draws are normals. `weights` is T, `place` finds a
position that has the weights given. A prior is a normalized distribution with draws: a base for the evidence.

References
----------
Papaspiliopoulos, Roberts & Sköld (2007), A general framework for the parametrization of hierarchical models, §2.
Betancourt & Girolami (2015), Hamiltonian Monte Carlo for hierarchical models, §2.2.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from langevin.core import noise
from langevin.core.record import replace, static, values
from langevin.core.target import Exact
from langevin.core.types import Key, PyTree, Scalar
from langevin.nets.priors.layout import Layout, prior_scales

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Prior(Exact):
    """Abstract: a prior over the position of a network. A subclass is a record.

    scale: a number, "fan_in" or a dict of path patterns; of a prior that knows its net, a tree with a number for every
        array.
    layout: what is known of the net; `on` fills it in.
    """

    scale: Any
    layout: Any = static(default=None)
    adds: ClassVar[bool] = False  # whether positions have an entry "prior", and weights are not those of "net"

    def on(self, net: PyTree, learned: tuple[str, ...] = ()) -> Any:
        """This prior for a net. learned: names of further numbers of the position, each N(0, 1)."""
        return replace(self, scale=prior_scales(net, self.scale), layout=Layout.of(net, learned))

    def __call__(self, position: PyTree) -> Scalar:
        raise NotImplementedError

    def log_density(self, position: PyTree) -> Scalar:
        return self(position)

    def sample(self, key: Key) -> PyTree:
        """A draw: a position."""
        raise NotImplementedError

    def exact(self, key: Key, n: int) -> PyTree:
        """n independent draws."""
        return jax.vmap(self.sample)(jax.random.split(key, n))

    def weights(self, position: PyTree) -> PyTree:
        """The weights of the net at a position."""
        return position["net"]

    def place(self, position: PyTree) -> PyTree:
        """A position with the weights that "net" of the one given holds; what else there is stays."""
        return position

    def words(self) -> str:
        """The prior in a few words."""
        kept = {k: v for k, v in values(self).items() if k != "layout"}
        if self.layout is not None:
            kept["scale"] = span(self.scale)
        given = ", ".join(f"{k} {v if isinstance(v, str) else f'{float(v):.4g}'}" for k, v in kept.items())
        return f"{type(self).__name__.removesuffix('Prior')}, {given}"

    def known(self) -> Layout:
        """The layout, or a sentence where there is none."""
        if self.layout is None:
            raise ValueError(f"{type(self).__name__}: it knows no net yet; take bnn(…).target.log_prior, or .on(net).")
        return self.layout

    def zeros(self) -> PyTree:
        """A position of zeros."""
        known, structure = self.known(), jax.tree.structure(self.scale)
        net = jax.tree.unflatten(structure, [jnp.zeros(shape) for shape in known.shapes])
        return {"net": net} | {name: jnp.zeros(()) for name in known.learned}


class PerWeight(Prior):
    """Abstract: independent weights. A subclass gives `log_prob`, `sample_weight` and `curvature` of one array."""

    def log_prob(self, w: jax.Array, s: jax.Array) -> jax.Array:
        """log p of every weight."""
        raise NotImplementedError

    def sample_weight(self, key: Key, shape: tuple[int, ...], s: jax.Array) -> jax.Array:
        raise NotImplementedError

    def curvature(self, w: jax.Array, s: jax.Array) -> jax.Array:
        """1/variance of the normal that p is like around w: what metrics are scaled by; positive."""
        raise NotImplementedError

    def __call__(self, position):
        one = lambda w, s: jnp.sum(self.log_prob(w, s))
        parts = jax.tree.leaves(jax.tree.map(one, position["net"], self.scale))
        return sum(parts, jnp.zeros(())) + sum(log_normal(position[name]) for name in self.known().learned)

    def sample(self, key):
        start = self.zeros()
        leaves, structure = jax.tree.flatten(start.pop("net"))
        k_rest, *keys = jax.random.split(key, len(leaves) + 1)
        drawn = [
            self.sample_weight(k, u.shape, s).astype(u.dtype)
            for k, u, s in zip(keys, leaves, jax.tree.leaves(self.scale), strict=True)
        ]
        return {"net": jax.tree.unflatten(structure, drawn)} | noise.like(k_rest, start)

    def precision(self, position):
        """1/variance around a position, in its shape."""
        net = jax.tree.map(self.curvature, position["net"], self.scale)
        return {"net": net} | {name: jnp.ones_like(position[name]) for name in self.known().learned}


class NonCentered(Prior):
    """Abstract: a position of standard normals. A subclass gives `extra`, `scales` and `begin`."""

    adds = True
    normal_scale = 1.0

    def extra(self) -> dict[str, Any]:
        """Shapes of what is added to the position, as a tree of zeros."""
        raise NotImplementedError

    def scales(self, extra: dict[str, Any]) -> dict[str, jax.Array]:
        """By the name of an array what its z is multiplied by, besides its scale; 1 where there is no entry."""
        raise NotImplementedError

    def begin(self, size: dict[str, jax.Array]) -> dict[str, Any]:
        """What is added for weights of given size, relative to scale: their root mean squares by name."""
        raise NotImplementedError

    def __call__(self, position):
        return sum((log_normal(u) for u in jax.tree.leaves(position)), jnp.zeros(()))

    def expected(self, mean, variance):
        """E log p under a distribution with these moments."""
        return self(mean) - 0.5 * sum((jnp.sum(v) for v in jax.tree.leaves(variance)), jnp.zeros(()))

    def precision(self, position):
        """1/variance, in the shape of a position."""
        return jax.tree.map(jnp.ones_like, position)

    def sample(self, key):
        return noise.like(key, self.zeros() | {"prior": self.extra()})

    def weights(self, position):
        return self._times(position["net"], self.scales(position["prior"]), jnp.multiply)

    def place(self, position):
        net, names = position["net"], self.known().names
        pairs = zip(names, jax.tree.leaves(net), jax.tree.leaves(self.scale), strict=True)
        extra = self.begin({name: jnp.sqrt(jnp.mean(w**2)) / s for name, w, s in pairs})
        return position | {"net": self._times(net, self.scales(extra), jnp.divide), "prior": extra}

    def _times(self, net: PyTree, scales: dict[str, jax.Array], by: Any) -> PyTree:
        leaves, structure = jax.tree.flatten(net)
        found = []
        for name, u, s in zip(self.known().names, leaves, jax.tree.leaves(self.scale), strict=True):
            wide = jnp.broadcast_to(s * scales.get(name, 1.0), u.shape)
            found.append(by(u, wide).astype(u.dtype))
        return jax.tree.unflatten(structure, found)


def log_normal(u: jax.Array) -> jax.Array:
    """Σ log N(u; 0, 1)."""
    return -0.5 * jnp.sum(u**2) - u.size * HALF_LOG_2PI


def span(scales: PyTree) -> str:
    """The least and the greatest of the numbers of a tree."""
    found = sorted({float(s) for s in jax.tree.leaves(scales)})
    return f"{found[0]:.4g}" + (f" to {found[-1]:.4g}" if len(found) > 1 else "")
