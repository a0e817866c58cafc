r"""Cooperative training: a generator proposes, chains on the energy revise, and both learn from the revision.

    x̂ = g(z),  z ~ N(0, I);      x̃ = K steps of a kernel from x̂ on the model;
    energy:      ascend E_data f − E f(x̃);
    generator:   descend |g(z) − x̃|²/2s², with the z that proposed.

The position is (weights of the energy, weights of the generator).

References
----------
Xie, Lu, Gao, Zhu & Wu (2020), Cooperative training of descriptor and generator networks, alg. 1.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from langevin.core.record import positive, record, static
from langevin.core.types import Eval, PyTree
from langevin.energy.chains import Note, choose, finite, moved, note_of, noted, unnoted
from langevin.energy.energy import Energy
from langevin.targets.stream import Examples


class Feed(NamedTuple):
    """Where the examples stand, and the last note."""

    rows: PyTree
    note: Note


@record
class Cooperative(Examples):
    """An energy and a generator that teach one another.

    energy: the model.
    generator: z → x, an Equinox net without its array leaves.
    kernel: how proposals are revised.
    data: (n, …) examples.
    latent: coordinates of z.
    steps: K.
    batch: examples in a mini-batch, and proposals.
    scale: s.
    """

    energy: Energy
    generator: Any = static()
    kernel: Any
    data: PyTree
    latent: int = static(default=2)
    steps: int = static(default=20)
    batch: int | None = static(default=128)
    scale: Any = positive(default=1.0)
    order: Literal["replacement", "epoch"] = static(default="epoch")
    stochastic = True
    note = staticmethod(note_of)

    def start(self, key):
        return Feed(self.first(key), unnoted())

    def propose(self, weights, z):
        """g(z) of many z."""
        return jax.vmap(eqx.combine(weights, self.generator))(z).reshape(len(z), *self.energy.shape)

    def estimate(self, key, feed: Feed, position) -> tuple[Eval, Feed]:
        k_rows, k_latent, k_move = jax.random.split(key, 3)
        rows, examples = self.take(k_rows, feed.rows)
        z = jax.random.normal(k_latent, (len(rows), self.latent))
        energy, generator = jax.lax.stop_gradient(position)
        begin = self.propose(generator, z)
        go = moved(k_move, self.kernel, self.energy.with_weights(energy), begin, self.steps)
        fine = finite(go.after)
        end = choose(fine, go.after.position, begin)

        def gain(position):
            inner = self.energy.with_weights(position[0])
            data, chain = jax.vmap(inner.f)(rows), jax.vmap(inner.f)(end)
            off = jnp.sum((self.propose(position[1], z) - end) ** 2) / (2 * self.scale**2 * len(z))
            return jnp.mean(data) - jnp.mean(chain) - off, (data, chain)

        (value, (data, chain)), grad = jax.value_and_grad(gain, has_aux=True)(position)
        note = noted(feed.note, (-jnp.mean(data), -jnp.mean(chain), jnp.std(chain)), self.kernel, go, fine)
        return Eval(value, grad, jnp.asarray(len(rows), jnp.int32)), Feed(examples, note)
