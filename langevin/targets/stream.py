r"""Examples as a stream of mini-batches, drawn inside the compiled loop: what `Bayes` and `Loss` share.

`order="replacement"` draws every batch independently; `"epoch"` visits every example once per epoch in a fresh order.
The order of an epoch is a bijection of {0, …, N−1} computed where it is needed, so a chain carries three integers and
not N: in each of a few turns every pair x + y = k (mod N), k random, changes places or not as a hash of the pair says.

References
----------
Hoang, Morris & Rogaway (2012), An enciphering scheme based on a card shuffle, fig. 1 (swap-or-not).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from langevin.core.target import Batched
from langevin.core.types import Batch, Eval, Key, PyTree, Scalar

BLOCK = 4096  # examples evaluated together when all data are
TURNS = 16  # of the shuffle; after 12 no test tells its orders from random ones, of 5 examples or 55,000


class Place(NamedTuple):
    """Where a chain stands in its stream of examples: a seed for the orders, the epoch, and the place in it."""

    seed: jax.Array
    epoch: jax.Array
    place: jax.Array


class Examples:
    """Abstract: a record with fields `data`, `batch` and `order`, and the order in which its examples are taken."""

    data: PyTree
    batch: int | None
    order: str

    def __post_init__(self):
        name = type(self).__name__
        sizes = {np.shape(u)[0] if np.ndim(u) else None for u in jax.tree.leaves(self.data)}
        if len(sizes) != 1 or None in sizes:
            raise ValueError(f"{name}: the arrays of `data` have {sorted(map(str, sizes))} examples; they must agree.")
        if sizes == {0}:
            raise ValueError(f"{name}: `data` has no examples; a posterior needs one or more.")
        if self.batch is not None and not 1 <= self.batch <= self.n:
            raise ValueError(f"{name}: batch is {self.batch}, but there are {self.n} examples; take 1 to {self.n}.")
        if self.order not in ("replacement", "epoch"):
            raise ValueError(f"{name}: order is {self.order!r}; it must be 'replacement' or 'epoch'.")

    @property
    def stochastic(self) -> bool:
        return self.batch is not None

    @property
    def n(self) -> int:
        """N, how many examples there are."""
        return jax.tree.leaves(self.data)[0].shape[0]

    def first(self, key: Key):
        """Where the stream begins."""
        if self.batch is None or self.order == "replacement":
            return ()
        zero = jnp.zeros((), jnp.int32)
        return Place(jax.random.bits(key, (), jnp.uint32), zero, zero)

    def take(self, key: Key, feed, *, fraction: float = 1.0) -> tuple[Batch, PyTree]:
        """The next examples, and where the stream stands after them."""
        if self.batch is None and fraction == 1.0:
            return self.data, feed
        if fraction < 1.0 or self.order == "replacement":
            size = max(1, round((self.batch or self.n) * fraction))
            index = jax.random.randint(key, (size,), 0, self.n)
        else:
            index, feed = self._next(feed)
        return jax.tree.map(lambda u: jnp.take(u, index, axis=0, mode="clip"), self.data), feed

    def _next(self, feed: Place):
        """The next `batch` indices of the stream; a batch may end one epoch and begin the next."""
        n = jnp.int32(self.n)
        place = feed.place + jnp.arange(self.batch, dtype=jnp.int32)
        later = place >= n
        now, then = (ordered(feed.seed, feed.epoch + i, self.n)[..., None] for i in (0, 1))
        index = shuffled(jnp.where(later[None, None], then, now), jnp.where(later, place - n, place), self.n)
        end = place[-1] + 1
        return index, Place(feed.seed, feed.epoch + (end >= n), jnp.where(end >= n, end - n, end))


class Stream(Examples, Batched):
    """Abstract: a target whose mini-batches are examples of its `data`."""

    def start(self, key: Key):
        return self.first(key)

    def draw(self, key: Key, feed, *, fraction: float = 1.0) -> tuple[Batch, PyTree]:
        return self.take(key, feed, fraction=fraction)

    def parts(self, batch: Batch, n: int) -> tuple[Batch, ...]:
        size = jax.tree.leaves(batch)[0].shape[0]
        if size % n:
            name = type(self).__name__
            raise ValueError(f"{name}: a batch of {size} does not split into {n} equal parts; take a multiple of {n}.")
        cut = size // n
        return tuple(jax.tree.map(lambda u: u[i * cut : (i + 1) * cut], batch) for i in range(n))


class Randomized(Stream):
    """Abstract: a value of examples and of random numbers. A subclass gives `value`."""

    stochastic = True

    def value(self, key: Key, rows: Batch, position: PyTree) -> Scalar:
        raise NotImplementedError

    def log_density(self, position: PyTree) -> Scalar:
        """Over all examples, with random numbers that are always the same."""
        return self.value(jax.random.key(0), self.data, position)

    def draw(self, key: Key, feed, *, fraction: float = 1.0) -> tuple[Batch, PyTree]:
        k_rows, k_value = jax.random.split(key)
        rows, feed = self.take(k_rows, feed, fraction=fraction)
        return (k_value, rows), feed

    def evaluate(self, batch: Batch, position: PyTree) -> Eval:
        key, rows = batch
        value, grad = jax.value_and_grad(lambda position: self.value(key, rows, position))(position)
        return Eval(value, grad, jnp.asarray(jax.tree.leaves(rows)[0].shape[0], jnp.int32))

    def parts(self, batch: Batch, n: int) -> tuple[Batch, ...]:
        key, rows = batch
        return tuple(zip(jax.random.split(key, n), Stream.parts(self, rows, n), strict=True))


def total(fn: Callable[[PyTree], jax.Array], data: PyTree) -> Scalar:
    """Σ fn over all examples, in blocks, so that memory does not grow with the data."""
    n = jax.tree.leaves(data)[0].shape[0]
    if n <= BLOCK:
        return jnp.sum(fn(data))
    whole = n // BLOCK * BLOCK
    blocks = jax.tree.map(lambda u: u[:whole].reshape(-1, BLOCK, *u.shape[1:]), data)
    value = jnp.sum(lax.map(lambda block: jnp.sum(fn(block)), blocks))
    return value if whole == n else value + jnp.sum(fn(jax.tree.map(lambda u: u[whole:], data)))


def shuffled(words, index, n: int):
    """Where `index` goes in the order that `words` (turn, 2, …) of `ordered` make: a bijection of {0, …, n−1}."""
    x = index.astype(jnp.uint32)
    for turn in range(TURNS):
        pivot, word = words[turn]
        y = pivot - x  # the mirror image
        y = jnp.minimum(y, y + jnp.uint32(n))  # mod n: below zero is beyond 2³¹
        pair = (jnp.maximum(x, y) ^ word) * jnp.uint32(0x7FEB352D)
        pair = (pair ^ (pair >> 15)) * jnp.uint32(0x846CA68B)
        x = jnp.where(pair >= jnp.uint32(1 << 31), y, x)
    return x.astype(jnp.int32)


def ordered(seed, epoch, n: int):
    """The words (turn, 2) of an epoch's order: where the mirror of a turn stands, and the seed of its pairs' hash."""
    count = jnp.arange(2 * TURNS, dtype=jnp.uint32).reshape(TURNS, 2)
    start = _mixed(_mixed(seed) + epoch.astype(jnp.uint32) * jnp.uint32(0x9E3779B1))
    words = _mixed(start + count * jnp.uint32(0x85EBCA77))
    return words.at[:, 0].set(words[:, 0] % jnp.uint32(n))


def _mixed(x):
    """A 32-bit hash."""
    for shift, multiplier in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ (x >> shift)) * jnp.uint32(multiplier)
    return x ^ (x >> 16)
