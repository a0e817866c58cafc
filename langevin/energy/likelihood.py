r"""Maximum likelihood of an energy, its gradient by chains.

    ∇_θ log p(data) = 1/T (E_data ∇_θ f − E_p ∇_θ f),

the second mean over the ends of K steps of a kernel on the model, any kernel of this library. With a kernel that gives
weights (`Info.log_weight`) the mean is weighted. The value maximised is T times the log likelihood per example. Where
chains begin is `start_at`:

    persistent   in a buffer: every evaluation moves the next chains and writes them back; with probability `restart` a
                 chain begins anew at `base`
    replay       in a buffer, slots drawn with replacement, the ends written over the oldest
    data         CD-K: at examples of the mini-batch; the energy far from data is not constrained
    noise        short-run: at `base`. The K-step sampler is the model then, and e^f need not be

Drift and noise are tied by T, which is the model's. `Note` (in `chains`) is kept in the stream beside the buffer, so
`run(collect=note_of)` records it; its `shadow` is the acceptance a Metropolis test of the last step of Langevin chains
would have had: how wrong unadjusted steps are here.

`through` > 0 makes it improved contrastive divergence: with x⁻(θ) the end of the last step, seen as a function of θ,
the loss has +E_{sg θ}(x⁻(θ)) and −`entropy` × the mean log distance from x⁻(θ) to the nearest of a few buffer points.

References
----------
Hinton (2002), Training products of experts by minimizing contrastive divergence, §3.
Tieleman (2008), Training restricted Boltzmann machines using approximations to the likelihood gradient, §3.
Nijkamp, Hill, Zhu & Wu (2019), Learning non-convergent non-persistent short-run MCMC, §3.
Du & Mordatch (2019), Implicit generation and modeling with energy-based models, alg. 1.
Du, Li, Tenenbaum & Mordatch (2021), Improved contrastive divergence training, eqs. (5)-(8).
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from langevin.core.record import nonnegative, record, static
from langevin.core.types import Eval, PyTree, State
from langevin.energy.chains import (
    Buffer,
    Note,
    begun,
    choose,
    finite,
    following,
    moved,
    note_of,
    noted,
    opened,
    unnoted,
)
from langevin.energy.energy import Energy
from langevin.targets.stream import Examples

STARTS = ("persistent", "replay", "data", "noise")
NEAR = 100  # buffer points to which the entropy term looks


class Feed(NamedTuple):
    """Where the examples stand, the buffer, and the last note."""

    rows: PyTree
    buffer: Buffer
    note: Note


@record
class EnergyLikelihood(Examples):
    """T × the mean log likelihood of an energy, its gradient by chains; maximise it with `Optimize`.

    energy: the model; its weights are what is learned.
    kernel: how chains move; any kernel.
    data: (n, …) examples.
    base: key → one x: where chains begin anew.
    steps: K, steps of every chain at every evaluation.
    chains: how many are moved.
    batch: examples in a mini-batch.
    start_at: "persistent", "replay", "data" or "noise".
    buffer: how many chains are kept.
    restart: share of chains begun anew at every evaluation.
    jitter: standard deviation of noise added to examples.
    through: weight of the term seen through the last step; 0 for plain contrastive divergence.
    entropy: weight of the entropy term, with `through`.
    order: of examples, "epoch" or "replacement".
    """

    energy: Energy
    kernel: Any
    data: PyTree
    base: Any
    steps: int = static(default=20)
    chains: int = static(default=128)
    batch: int | None = static(default=128)
    start_at: Literal["persistent", "replay", "data", "noise"] = static(default="persistent")
    buffer: int = static(default=4096)
    restart: Any = nonnegative(default=0.02)
    jitter: Any = nonnegative(default=0.0)
    through: float = static(default=0.0)
    entropy: float = static(default=0.0)
    order: Literal["replacement", "epoch"] = static(default="epoch")
    stochastic = True
    note = staticmethod(note_of)

    def __post_init__(self):
        Examples.__post_init__(self)
        if self.start_at not in STARTS:
            raise ValueError(f"EnergyLikelihood: start_at is {self.start_at!r}; it must be one of {', '.join(STARTS)}.")
        if self.buffer < self.chains:
            raise ValueError(
                f"EnergyLikelihood: a buffer of {self.buffer} does not hold {self.chains} chains; take more."
            )
        if self.steps < 1:
            raise ValueError(f"EnergyLikelihood: steps is {self.steps}; chains must move, take 1 or more.")
        if self.start_at == "data" and (self.batch or self.n) < self.chains:
            raise ValueError(
                f"EnergyLikelihood: {self.chains} chains begin at {self.batch} examples; take a larger batch."
            )
        if self.entropy and not self.through:
            raise ValueError(
                "EnergyLikelihood: entropy has its effect through the last step; set `through` too, say 1."
            )

    def start(self, key):
        k_rows, k_buffer = jax.random.split(key)
        kept = self.buffer if self.start_at in ("persistent", "replay") else 1
        return Feed(self.first(k_rows), opened(k_buffer, self.base, kept), unnoted())

    def estimate(self, key, feed: Feed, weights) -> tuple[Eval, Feed]:
        """Move the chains on the model with these weights, and compare them with examples."""
        k_rows, k_jitter, k_begin, k_move, k_near = jax.random.split(key, 5)
        model = self.energy.with_weights(jax.lax.stop_gradient(weights))
        rows, examples = self.take(k_rows, feed.rows)
        rows = rows + self.jitter * jax.random.normal(k_jitter, rows.shape)
        begin, age, slot, place = self._begin(k_begin, feed.buffer, rows)
        go = moved(k_move, self.kernel, model, begin, self.steps)
        fine = finite(go.after)  # a chain that is lost goes back to its start, and has no part in this evaluation
        end = choose(fine, go.after.position, begin)
        weight = jnp.where(fine, go.weight, 0.0)
        weight = weight / jnp.maximum(jnp.sum(weight), 1e-30)

        def gain(weights):
            inner = self.energy.with_weights(weights)
            data, chain = jax.vmap(inner.f)(rows), jax.vmap(inner.f)(end)
            value = jnp.mean(data) - jnp.sum(weight * chain)
            if self.through:
                value = value + self._extra(k_near, inner, model, go.before, feed.buffer.position)
            return value, (data, chain)

        (value, (data, chain)), grad = jax.value_and_grad(gain, has_aux=True)(weights)
        buffer = feed.buffer._replace(place=place)
        if slot is not None:
            position = feed.buffer.position.at[slot].set(end)
            buffer = Buffer(position, feed.buffer.age.at[slot].set(age + 1), place)
        energies = -jnp.mean(data), -jnp.sum(weight * chain), jnp.std(chain)
        note = noted(feed.note, energies, self.kernel, go, fine)._replace(restarted=jnp.mean((age == 0).astype(float)))
        return Eval(value, grad, jnp.asarray(len(rows), jnp.int32)), Feed(examples, buffer, note)

    def _begin(self, key, buffer: Buffer, rows):
        """Starts (chains, …), their age, the slots their ends go to (None: nowhere), and the place in the order."""
        m, zero, place = self.chains, jnp.zeros(self.chains, jnp.int32), buffer.place
        if self.start_at == "data":
            return rows[:m], zero, None, place
        k_slot, k_again, k_base = jax.random.split(key, 3)
        fresh = begun(k_base, self.base, m)
        if self.start_at == "noise":
            return fresh, zero, None, place
        if self.start_at == "persistent":
            slot, place = following(place, m, self.buffer)
            source = slot
        else:
            source = jax.random.randint(k_slot, (m,), 0, self.buffer)
            slot = (place.place + jnp.arange(m, dtype=jnp.int32)) % self.buffer
            place = place._replace(place=(place.place + m) % self.buffer)
        again = jax.random.uniform(k_again, (m,)) < self.restart
        return choose(again, fresh, buffer.position[source]), jnp.where(again, 0, buffer.age[source]), slot, place

    def _extra(self, key, inner: Energy, model: Energy, before: State, points):
        """Improved CD: −E and the entropy of the ends, as the weights move them in the last step."""
        x = jax.lax.stop_gradient(before.position)
        end = x + self.kernel.step_size * jax.vmap(jax.grad(inner.log_density))(x)
        value = self.through * jnp.mean(jax.vmap(model.f)(end))
        if not self.entropy:
            return value
        near = points[jax.random.randint(key, (min(NEAR, len(points)),), 0, len(points))]
        apart = end.reshape(len(end), 1, -1) - near.reshape(1, len(near), -1)
        square = jnp.min(jnp.sum(apart**2, axis=-1), axis=1)
        return value + self.entropy * self.energy.temperature * jnp.mean(0.5 * jnp.log(square + 1e-12))
