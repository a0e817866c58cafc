r"""NumPyro models as targets, on their unconstrained space.

    log p(u) = log p(data, x = T(u)) + log |det ∂T/∂u|,

T NumPyro's map from ℝ^m onto the supports of the latent sites. A plate with `subsample_size` makes the target a
mini-batched one: a batch is the indices of every such plate, drawn with replacement, and NumPyro scales what the
plate holds by size / length. `log_density` puts all indices in, so it is exact. Arrays among the model's arguments
travel as data; anything else is part of the program. A model that needs the *values* of an array to set a shape gets
it by `functools.partial(model, groups=…)`.

References
----------
Phan, Pradhan & Jankowiak (2019), Composable effects for flexible and accelerated probabilistic programming in NumPyro.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core.record import record, static
from langevin.core.target import Batched
from langevin.core.types import Batch, Eval, Feed, Key, PyTree, Scalar


@record
class Model(Batched):
    """A NumPyro model; made by `from_numpyro`.

    model: the model, a function.
    arrays: the arrays among its arguments.
    program: what is left of its arguments, as (leaves, tree), an array's place taken by `Array`.
    plates: (name, size, subsample size) of every plate that is subsampled.
    """

    model: Callable = static()
    arrays: tuple = ()
    program: tuple = static(default=((), None))
    plates: tuple = static(default=())

    @property
    def stochastic(self) -> bool:
        return bool(self.plates)

    def constrain(self, position: PyTree) -> PyTree:
        """The latent sites on their own supports, and the deterministic sites, of one position."""
        from numpyro.infer.util import constrain_fn

        args, kwargs = self._arguments()
        return constrain_fn(self._on(self._all()), args, kwargs, position, return_deterministic=True)

    def log_density(self, position: PyTree) -> Scalar:
        try:
            return self._log_density(self._all(), position)
        except (TypeError, ValueError, IndexError) as error:
            if not self.plates:
                raise
            raise ValueError(
                f"from_numpyro: the model cannot be run on all of plate {self.plates[0][0]!r}, so its exact log "
                "density is not available; index the data by what the plate yields, or call numpyro.subsample."
            ) from error

    def start(self, key: Key) -> Feed:
        return ()

    def draw(self, key: Key, feed: Feed, *, fraction: float = 1.0) -> tuple[Batch, Feed]:
        if not self.plates:
            return (), feed
        keys = jax.random.split(key, len(self.plates))
        lengths = [max(1, round(length * fraction)) for *_, length in self.plates]
        index = [
            jax.random.randint(k, (length,), 0, size)
            for k, length, (_, size, _) in zip(keys, lengths, self.plates, strict=True)
        ]
        return tuple(index), feed

    def evaluate(self, batch: Batch, position: PyTree) -> Eval:
        value, grad = jax.value_and_grad(lambda position: self._log_density(batch, position))(position)
        return Eval(value, grad, jnp.asarray(sum(u.shape[0] for u in batch) or 1, jnp.int32))

    def parts(self, batch: Batch, n: int) -> tuple[Batch, ...]:
        for (name, *_), index in zip(self.plates, batch, strict=True):
            if index.shape[0] % n:
                raise ValueError(
                    f"from_numpyro: {index.shape[0]} indices of plate {name!r} do not split into {n} equal parts; "
                    f"choose a subsample_size that is a multiple of {n}."
                )
        return tuple(zip(*(jnp.split(index, n) for index in batch), strict=True)) if batch else ((),) * n

    def _log_density(self, batch, position):
        from numpyro.infer.util import potential_energy

        args, kwargs = self._arguments()
        return -potential_energy(self._on(batch), args, kwargs, position)

    def _arguments(self):
        leaves, structure = self.program
        arrays = iter(self.arrays)
        return structure.unflatten([next(arrays) if leaf is Array else leaf for leaf in leaves])

    def _all(self):
        return tuple(jnp.arange(size) for _, size, _ in self.plates)

    def _on(self, batch):
        """The model with the subsampled plates at these indices."""
        if not self.plates:
            return self.model
        from numpyro.primitives import Messenger

        indices = {name: index for (name, *_), index in zip(self.plates, batch, strict=True)}

        class Indexed(Messenger):
            def process_message(self, msg):
                if msg["type"] == "plate" and msg["name"] in indices:
                    index = indices[msg["name"]]
                    # the length goes in too, so that the plate takes it for its own subsample size
                    msg["args"], msg["value"] = (msg["args"][0], index.shape[0]), index

        return Indexed(self.model)


class Array:
    """Stands in a program for an array that travels as data."""


def from_numpyro(key: Key, model: Callable, *args: Any, **kwargs: Any) -> tuple[Model, PyTree, Callable]:
    """A NumPyro model given its arguments: (target, a valid unconstrained position, position → constrained sites)."""
    from numpyro.infer.util import initialize_model

    # NumPyro uses its key twice; as plain words the key-reuse checker lets it
    words = jax.random.bits(key, (2,), jnp.uint32)
    info = initialize_model(words, model, model_args=args, model_kwargs=kwargs)
    plates = {
        name: (name, site["args"][0], site["args"][1])
        for name, site in info.model_trace.items()
        if site["type"] == "plate" and site["args"][1] not in (None, site["args"][0])
    }
    _check(info.model_trace, plates)
    leaves, structure = jax.tree.flatten((args, kwargs))
    is_array = [isinstance(leaf, (np.ndarray, jax.Array)) for leaf in leaves]
    arrays = tuple(jnp.asarray(leaf) for leaf, yes in zip(leaves, is_array, strict=True) if yes)
    program = tuple(Array if yes else leaf for leaf, yes in zip(leaves, is_array, strict=True))
    target = Model(model, arrays, (program, structure), tuple(plates.values()))
    return target, dict(info.param_info.z), target.constrain


def _check(trace, plates) -> None:
    """Refuse what cannot be sampled, in one sentence."""
    for name, site in trace.items():
        if site["type"] != "sample" or site["is_observed"]:
            continue
        if site["fn"].support.is_discrete:
            raise ValueError(f"from_numpyro: the latent site {name!r} is discrete; sum it out of the model first.")
        inside = [frame.name for frame in site["cond_indep_stack"] if frame.name in plates]
        if inside:
            raise ValueError(
                f"from_numpyro: the latent site {name!r} lies inside the subsampled plate {inside[0]!r}, so a batch "
                "would hold only part of it; move it out, or do not subsample the plate."
            )
