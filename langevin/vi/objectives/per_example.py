r"""The ELBO of a network whose weights are drawn anew for every example, not once for a mini-batch.

With one draw of the weights for a batch, the noise of its examples' gradients is shared, and the variance of their mean
does not fall with the size of the batch. Here it does, at about twice the cost of a step. Of a dense layer x ↦ x W + b

    local      y ~ N(x M + m, x² S² + s²): the outputs' own law for W ~ N(M, S²), b ~ N(m, s²)
    flipout    y = x M + m + ((x∘r) ΔW + Δb)∘t,  with r and t signs of the example, one draw ΔW, Δb for all of them

M + (r tᵀ)∘ΔW has the law of M + ΔW where deviations may change sign one by one. Both have the ELBO as their mean.
Layers that read several rows of one example, as convolutions do, share weights between outputs: local
reparameterization has no part in that and refuses, flipout takes one draw for all rows of an example. What is not in
such layers (scales of norms, log σ) is drawn once.

References
----------
Kingma, Salimans & Welling (2015), Variational dropout and the local reparameterization trick, eq. (6), §2.2.
Wen, Vicol, Ba, Tran & Grosse (2018), Flipout: efficient pseudo-independent weight perturbations on mini-batches,
    eq. (4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from langevin.core import tree
from langevin.core.record import record, static
from langevin.core.target import HasLikelihood
from langevin.core.types import Batch, Eval, Key, PyTree
from langevin.vi.families.mean_field import MeanField
from langevin.vi.family import HasSigns
from langevin.vi.objectives.base import each
from langevin.vi.objectives.black_box_alpha import divergence


@runtime_checkable
class Layer(Protocol):
    """A layer of a net that can be made noisy; `spread` and `change` are layers like it, of scales or deviations."""

    def local(self, spread: Any, key: Key) -> Any: ...
    def flipout(self, change: Any, key: Key) -> Any: ...


@runtime_checkable
class ByExample(Protocol):
    """A log likelihood of a net that can be changed for every example: `change(net, key)` with a key of its own."""

    def by_example(self, position: PyTree, data: Batch, keys: Key, change: Callable) -> jax.Array: ...


class PerExample:
    """Abstract: an ELBO with a draw for every example. A subclass is a record and gives `allows` and `noisy`."""

    draws: int
    requires: ClassVar[Any] = HasLikelihood

    def __post_init__(self):
        if self.draws < 1:
            raise ValueError(f"{type(self).__name__}: draws is {self.draws}; it must be 1 or more.")

    def allows(self, family: Any) -> None:
        """Refuse other families."""
        raise NotImplementedError

    def noisy(self, family: Any, params: Any, draw: PyTree) -> tuple[PyTree, Callable]:
        """A tree of scales or of deviations, and what a layer does with it: (layer, its part, key) → layer."""
        raise NotImplementedError

    def evaluate(self, key, rows, params, family: Any, target: Any) -> Eval:
        self.allows(family)
        likelihood, name = getattr(target, "log_likelihood", None), type(self).__name__
        if not isinstance(likelihood, ByExample) or not layers(family.mean(params)):
            raise TypeError(
                f"{name}: the target has no net with layers that can be drawn for every example, as those of "
                "langevin.nets; take ELBO."
            )
        n = jax.tree.leaves(rows)[0].shape[0]

        def energy(params):
            def one(key):
                k_draw, k_rows = jax.random.split(key)
                draw = family.sample(k_draw, params)
                noise, how = self.noisy(family, params, draw)
                position = jax.tree.map(
                    lambda mean, drawn: mean if isinstance(mean, Layer) else drawn,
                    family.mean(params),
                    draw,
                    is_leaf=is_layer,
                )
                change = lambda net, key: replaced(net, layers(noise), key, how)
                log_p = likelihood.by_example(position, rows, jax.random.split(k_rows, n), change)
                return target.n / n * jnp.sum(log_p), draw

            values, positions = each(one, jax.random.split(key, self.draws))
            return jnp.mean(values) - divergence(family, params, positions, target)

        value, grad = jax.value_and_grad(energy)(params)
        return Eval(value, grad, jnp.asarray(n * self.draws, jnp.int32))


@record
class LocalELBO(PerExample):
    """The ELBO by local reparameterization: outputs of layers are drawn, not weights; for `MeanField`.

    draws: K, of every example.
    """

    draws: int = static(default=1)

    def allows(self, family):
        if not isinstance(family, MeanField):
            raise TypeError(f"LocalELBO needs the factorized Gaussian, MeanField; {type(family).__name__} is another.")

    def noisy(self, family, params, draw):
        return jax.tree.map(jnp.exp, params.log_scale), lambda layer, spread, key: layer.local(spread, key)


@record
class FlipoutELBO(PerExample):
    """The ELBO by flipout: one draw of the weights, its deviations turned by signs for every example.

    draws: K, of every example.
    """

    draws: int = static(default=1)

    def allows(self, family):
        if not isinstance(family, HasSigns):
            raise TypeError(
                "FlipoutELBO needs a family whose deviations from the mean may change sign one by one, MeanField or "
                f"Radial; {type(family).__name__} is another."
            )

    def noisy(self, family, params, draw):
        return tree.sub(draw, family.mean(params)), lambda layer, change, key: layer.flipout(change, key)


def is_layer(node: Any) -> bool:
    return isinstance(node, Layer)


def layers(net: PyTree) -> list[Any]:
    """The layers in a tree, in its order."""
    return [node for node in jax.tree.leaves(net, is_leaf=is_layer) if is_layer(node)]


def replaced(net: PyTree, others: list[Any], key: Key, how: Callable) -> PyTree:
    """The net with each of its layers made noisy by what belongs to it."""
    nodes, structure = jax.tree.flatten(net, is_leaf=is_layer)
    pairs = zip(others, jax.random.split(key, len(others)), strict=True)
    return jax.tree.unflatten(structure, [how(node, *next(pairs)) if is_layer(node) else node for node in nodes])
