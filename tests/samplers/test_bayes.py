"""Mini-batches: orders that are permutations, batches that are unbiased, shapes that are checked."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from langevin.targets.bayes import Bayes
from langevin.targets.stream import BLOCK, ordered, shuffled, total


def prior(x):
    return -0.5 * jnp.sum(x**2)


def likelihood(x, data):
    return -0.5 * (data - x[0]) ** 2


def summed(x, data):
    return jnp.sum(likelihood(x, data))


DATA = jnp.arange(10.0)


def order(seed, epoch, n):
    words = ordered(seed, jnp.asarray(epoch, jnp.int32), n)
    return shuffled(words[..., None], jnp.arange(n, dtype=jnp.int32), n)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 64, 100, 1000, 17379])
def test_every_epoch_is_a_permutation(n):
    for epoch in (0, 1, 5):
        assert np.array_equal(np.sort(np.asarray(order(jnp.uint32(77), epoch, n))), np.arange(n))


def test_orders_are_uniform():
    """Where each of 12 examples goes over 20,000 seeds, and what follows what: χ² as a z-score."""
    n, seeds = 12, 20_000
    many = jax.jit(jax.vmap(lambda s: order(s, 0, n)))
    found = np.asarray(many(jnp.arange(seeds, dtype=jnp.uint32) * jnp.uint32(2654435761)))
    places = np.stack([np.bincount(found[:, i], minlength=n) for i in range(n)])
    z = (np.sum((places - seeds / n) ** 2 / (seeds / n)) - (n - 1) ** 2) / np.sqrt(2 * (n - 1) ** 2)
    assert abs(z) < 5
    pairs = np.bincount((found[:, :-1] * n + found[:, 1:]).ravel(), minlength=n * n).reshape(n, n)
    off = pairs[~np.eye(n, dtype=bool)]
    expected = seeds * (n - 1) / off.size
    assert np.all(np.diag(pairs) == 0)
    assert abs((np.sum((off - expected) ** 2 / expected) - off.size) / np.sqrt(2 * off.size)) < 5


@pytest.mark.parametrize("n", [2, 5, 6])
@pytest.mark.parametrize("over", ["seeds", "epochs"])
def test_every_order_is_as_likely_as_every_other(n, over):
    """χ² of all n! orders as a z-score; half the turns of the shuffle would not do."""
    draws, orders = 100_000, math.factorial(n)
    count = jnp.arange(draws, dtype=jnp.uint32)
    one = (
        (lambda i: order(i * jnp.uint32(2654435761), 3, n)) if over == "seeds" else lambda i: order(jnp.uint32(7), i, n)
    )
    code = np.asarray(jax.jit(jax.vmap(one))(count)) @ n ** np.arange(n)
    seen = np.unique(code, return_counts=True)[1]
    chi2 = np.sum((seen - draws / orders) ** 2) / (draws / orders) + (orders - len(seen)) * draws / orders
    assert abs(chi2 - (orders - 1)) / np.sqrt(2 * (orders - 1)) < 4


def test_orders_of_successive_epochs_are_independent():
    """Where the first of 40 examples goes in one epoch and in the next."""
    n, epochs = 40, 50_000
    first = np.asarray(jax.jit(jax.vmap(lambda i: order(jnp.uint32(11), i, n)[0]))(jnp.arange(epochs, dtype=jnp.int32)))
    pairs = np.bincount(first[:-1] * n + first[1:], minlength=n * n)
    expected = (epochs - 1) / n**2
    assert abs(np.sum((pairs - expected) ** 2) / expected - n**2) / np.sqrt(2 * n**2) < 4


def test_an_epoch_feed_sees_every_example_once(key):
    target = Bayes(prior, likelihood, DATA, batch=4, order="epoch")
    k_start, *keys = jax.random.split(key, 11)
    feed, seen = target.start(k_start), []
    for k in keys:
        batch, feed = target.draw(k, feed)
        seen.append(np.asarray(batch))
    epochs = np.concatenate(seen).reshape(4, 10)
    assert all(np.array_equal(np.sort(e), np.arange(10)) for e in epochs)
    assert len({tuple(e) for e in epochs}) == 4, "every epoch has its own order"


def test_a_fraction_leaves_the_feed_as_it_was(key):
    target = Bayes(prior, likelihood, DATA, batch=4, order="epoch")
    k_start, k_draw = jax.random.split(key)
    feed = target.start(k_start)
    batch, after = target.draw(k_draw, feed, fraction=0.5)
    assert batch.shape == (2,)
    assert after is feed


def test_draws_with_replacement_are_uniform(key):
    target = Bayes(prior, likelihood, DATA, batch=10)
    keys = jax.random.split(key, 5000)
    seen = jax.vmap(lambda k: target.draw(k, ())[0])(keys)
    counts = np.bincount(np.asarray(seen, int).ravel(), minlength=10)
    assert abs((np.sum((counts - 5000) ** 2 / 5000) - 9) / np.sqrt(18)) < 5


def test_all_data_in_blocks_is_all_data():
    data = jnp.linspace(-1.0, 1.0, 2 * BLOCK + 17)
    np.testing.assert_allclose(total(lambda d: d**2, data), np.sum(np.asarray(data, np.float64) ** 2), rtol=1e-5)


def test_a_sum_in_place_of_one_number_per_example_is_refused():
    target = Bayes(prior, summed, DATA, batch=4)
    with pytest.raises(ValueError, match=r"returned shape \(\) for 10 examples; it must return one number per example"):
        target.log_density(jnp.zeros(1))


def test_arrays_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="they must agree"):
        Bayes(prior, likelihood, (jnp.zeros(3), jnp.zeros(4)))
