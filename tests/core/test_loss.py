"""Training as a target: a mean and not a sum, climbed by Optimize, with a running mean of the weights beside it."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from langevin.core.run import run
from langevin.core.target import Density
from langevin.samplers.optimize import Optimize
from langevin.samplers.sgld import SGLD
from langevin.samplers.wrappers.ema import EMA, mean_of
from langevin.targets.loss import Loss

X = np.arange(12.0, dtype=np.float32)
RATE = 0.125


def squared(key, position, rows):
    """Squared distances to noisy rows: their mean has the gradient 2 (position − mean of rows − mean noise)."""
    return (position - rows - jax.random.normal(key, rows.shape)) ** 2


def flat(position):
    return -0.5 * jnp.sum(position**2)


def test_a_loss_is_a_mean_over_rows_and_its_gradient_climbs(key):
    target = Loss(squared, X, batch=4)
    k_start, k_draw = jax.random.split(key)
    (k_loss, rows), feed = target.draw(k_draw, target.start(k_start))
    noise = jax.random.normal(jax.random.clone(k_loss), rows.shape)
    found = target.evaluate((k_loss, rows), jnp.float32(1.0))
    np.testing.assert_allclose(found.log_density, -jnp.mean((1.0 - rows - noise) ** 2), rtol=1e-5)
    np.testing.assert_allclose(found.grad, -2 * jnp.mean(1.0 - rows - noise), rtol=1e-4)
    assert found.n_data == 4
    assert int(feed.place) == 4


def test_an_epoch_shows_every_row_once(key):
    target, seen = Loss(squared, X, batch=4), []
    feed = target.start(key)
    for i in range(3):
        (_, rows), feed = target.draw(jax.random.key(i), feed)
        seen += rows.tolist()
    assert sorted(seen) == X.tolist()


def test_every_batch_has_noise_of_its_own(key):
    target = Loss(squared, X, batch=4)
    states = [target.draw(k, target.start(jax.random.key(0)))[0][0] for k in jax.random.split(key, 2)]
    assert not np.array_equal(*map(jax.random.key_data, states))


def test_ascend_on_a_loss_goes_to_its_least_value(key):
    kernel = EMA(Optimize(optax.sgd(RATE)), decay=0.98)
    found = run(key, kernel, Loss(squared, X, batch=4), jnp.zeros((64,)), draws=800, collect=mean_of)
    mean = np.asarray(found.kept[:, -1])
    z = (mean.mean() - X.mean()) / (mean.std(ddof=1) / np.sqrt(len(mean)))
    assert abs(z) < 5


@pytest.mark.parametrize("decay", [1.0, 0.5])
def test_the_running_mean_is_the_mean_of_what_was_run(decay, key):
    kernel = EMA(SGLD(step_size=0.1), decay=decay)
    target, start = Density(flat), jnp.ones((2, 3))
    found = run(key, kernel, target, start, draws=20, collect=lambda state: (state.position, mean_of(state)))
    position, mean = found.kept
    expected = np.ones((2, 3))
    for t in range(20):
        w = max(1 - decay, 1 / (t + 2))
        expected = (1 - w) * expected + w * position[:, t]
        np.testing.assert_allclose(mean[:, t], expected, atol=1e-5)
    if decay == 1.0:
        np.testing.assert_allclose(mean[:, -1], (position.sum(1) + 1) / 21, atol=1e-5)


def test_bad_batches_are_refused_in_words():
    with pytest.raises(ValueError, match="Loss: batch is 13, but there are 12 examples"):
        Loss(squared, X, batch=13)
    with pytest.raises(ValueError, match="Loss: a batch of 12 does not split into 5"):
        Loss(squared, X).parts((jax.random.key(0), X), 5)
