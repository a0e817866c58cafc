r"""Chains on an energy that is being learned: where they begin, how they move, where they are kept, what to watch.

A buffer holds one position a chain. Every evaluation takes the next `take` of its slots, in an order that visits all,
and their ends are written back where they came from: no chain is lost or doubled. With probability `restart` a chain
begins anew."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from langevin.core import noise
from langevin.core.record import record, static
from langevin.core.types import State
from langevin.samplers.sgld import SGLD
from langevin.targets.stream import Place, ordered, shuffled

MAPPED = State(0, 0, 0, 0, 0, None)  # `count` is one number for all chains


class Note(NamedTuple):
    """What one evaluation of the model found; energies are −f."""

    energy_data: jax.Array
    energy_chain: jax.Array
    spread_chain: jax.Array  # standard deviation of the chains' energies
    acceptance: jax.Array  # of the kernel; 1 if it is not adjusted
    shadow: jax.Array  # of a test that is not made
    grad_norm: jax.Array  # root mean square of |∇ log p| at the chains' ends
    restarted: jax.Array  # share of chains that begin anew
    n_grad: jax.Array  # gradients of f in x so far, of all chains
    ok: jax.Array  # share of chains that are finite


class Buffer(NamedTuple):
    """Positions of all chains, how many looks each has lived, and where their order stands."""

    position: jax.Array
    age: jax.Array
    place: Place


class Moved(NamedTuple):
    """States before the last step and after it, normalised weights, gradients taken and mean acceptance, by chain."""

    before: State
    after: State
    weight: jax.Array
    n_grad: jax.Array
    acceptance: jax.Array


@record
class Around:
    """Where chains begin: N(centre, scale²) in every coordinate.

    centre: a number or an array like x.
    scale: standard deviation.
    shape: of one x.
    """

    centre: Any = 0.0
    scale: Any = 1.0
    shape: tuple[int, ...] = static(default=(2,))

    def __call__(self, key):
        return self.centre + self.scale * jax.random.normal(key, self.shape)


@record
class Uniform:
    """Where chains begin: uniform in a box.

    low: of every coordinate.
    high: of every coordinate.
    shape: of one x.
    """

    low: Any = 0.0
    high: Any = 1.0
    shape: tuple[int, ...] = static(default=(2,))

    def __call__(self, key):
        return jax.random.uniform(key, self.shape, minval=self.low, maxval=self.high)


def begun(key, base, n: int):
    """n starts."""
    return jax.vmap(base)(jax.random.split(key, n)).astype(jnp.float32)


def opened(key, base, size: int) -> Buffer:
    """A buffer whose chains all begin at `base`."""
    k_base, k_seed = jax.random.split(key)
    zero = jnp.zeros((), jnp.int32)
    place = Place(jax.random.bits(k_seed, (), jnp.uint32), zero, zero)
    return Buffer(begun(k_base, base, size), jnp.zeros(size, jnp.int32), place)


def following(place: Place, take: int, size: int) -> tuple[jax.Array, Place]:
    """The next `take` slots, all different; every order visits each once, but for a rest smaller than `take`."""
    short = place.place + take > size
    at, epoch = jnp.where(short, 0, place.place), place.epoch + short
    index = at + jnp.arange(take, dtype=jnp.int32)
    slot = shuffled(ordered(place.seed, epoch, size)[..., None], index, size)
    return slot, Place(place.seed, epoch, at + take)


def moved(key, kernel: Any, model: Any, begin, steps: int) -> Moved:
    """`steps` steps of every chain on the model, side by side."""
    chains = len(begin)
    k_init, k_steps = jax.random.split(key)
    states = jax.vmap(lambda k, x: kernel.init(k, x, model))(jax.random.split(k_init, chains), begin)
    states = states._replace(count=states.count[0])
    one = jax.vmap(lambda k, s: kernel.step(k, s, model), (0, MAPPED), (MAPPED, 0))
    keys = jax.vmap(lambda k: jax.random.split(k, chains))(jax.random.split(k_steps, steps))
    words, wrap = noise.words(keys)

    def step(carry, word):
        _, state, n_grad, acceptance, _ = carry
        new, info = one(wrap(word), state)
        return (state, new, n_grad + info.n_grad, acceptance + info.acceptance, info.log_weight), None

    zero = jnp.zeros(chains, jnp.float32)
    carry = (states, states, jnp.ones(chains, jnp.int32), zero, zero)
    (before, after, n_grad, acceptance, log_weight), _ = jax.lax.scan(step, carry, words)
    return Moved(before, after, jax.nn.softmax(log_weight), n_grad, acceptance / steps)


def shadow(kernel: Any, go: Moved):
    """The mean acceptance a Metropolis test of the last step of `SGLD` would have; of other kernels, their own."""
    if not isinstance(kernel, SGLD) or callable(kernel.step_size):
        return jnp.mean(go.acceptance)
    h, before, after = kernel.step_size, go.before, go.after
    x, y, g, g_new = (_flat(u) for u in (before.position, after.position, before.eval.grad, after.eval.grad))
    there, back = jnp.sum((y - x - h * g) ** 2, axis=1), jnp.sum((x - y - h * g_new) ** 2, axis=1)
    log_a = after.eval.log_density - before.eval.log_density + (there - back) / (4 * h)
    return jnp.mean(jnp.exp(jnp.minimum(jnp.where(jnp.isnan(log_a), -jnp.inf, log_a), 0.0)))


def finite(state: State) -> jax.Array:
    """Which chains are where their log density is a number."""
    return jnp.all(jnp.isfinite(_flat(state.position)), axis=1) & jnp.isfinite(state.eval.log_density)


def choose(mask, a, b):
    """a where the chain's mask is true, else b."""
    return jnp.where(mask.reshape(mask.shape + (1,) * (a.ndim - 1)), a, b)


def unnoted() -> Note:
    """The note before the first look."""
    return Note(*(jnp.zeros(()) for _ in Note._fields))._replace(ok=jnp.ones(()))


def noted(last: Note, energies: tuple, kernel: Any, go: Moved, fine) -> Note:
    """The note of a look that found energies (data, chains, spread of chains); all chains count as restarted."""
    norm = jnp.sqrt(jnp.mean(jnp.sum(_flat(go.after.eval.grad) ** 2, axis=1)))
    return Note(
        *energies,
        acceptance=jnp.mean(go.acceptance),
        shadow=shadow(kernel, go),
        grad_norm=norm,
        restarted=jnp.ones(()),
        n_grad=last.n_grad + jnp.sum(go.n_grad).astype(jnp.float32),
        ok=jnp.mean(fine.astype(jnp.float32)),
    )


def note_of(state: State) -> Note:
    """What to keep of a training run: the note of every step."""
    return state.feed.note


def _flat(u):
    return u.reshape(u.shape[0], -1)
