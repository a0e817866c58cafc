"""Posteriors: averages and predictions from memory and from disk, going on, where they came from."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_posterior import KERNEL, TARGET, draw, same, square

from langevin.core import noise
from langevin.core.kernel import replace
from langevin.core.posterior import Provenance
from langevin.core.shards import Stored
from langevin.core.target import Density
from langevin.samplers.sgld import SGLD
from langevin.samplers.wrappers.cyclical import Cyclical


def probability(w, x):
    return {"p": jax.nn.sigmoid(x["x"] @ w)}


def identity(x):
    return x


# --- averages -----------------------------------------------------------------------------------------------------


def test_map_from_disk_and_memory(memory, disk):
    assert isinstance(disk.draws, Stored)
    mapped = memory.map(square)
    same(mapped, disk.map(square))
    np.testing.assert_allclose(mapped["square"], memory.draws**2, rtol=1e-6)
    np.testing.assert_allclose(mapped["sum"], memory.draws.sum(-1), rtol=1e-5, atol=1e-6)


def test_expect_from_disk_and_memory(memory, disk):
    one, two = memory.expect(square), disk.expect(square)
    np.testing.assert_allclose(one["square"], (memory.draws**2).mean((0, 1)), rtol=1e-5)
    jax.tree.map(lambda u, v: np.testing.assert_allclose(u, v, rtol=1e-6), one, two)


def test_expect_weighs_draws(memory):
    log_weight = np.random.default_rng(0).normal(size=(2, 40)) * 3 + 1000
    log_weight[0, :10] = -np.inf
    post = dataclasses.replace(memory, info=memory.info._replace(log_weight=log_weight))
    w = np.exp(log_weight - 1000)
    expected = (w[..., None] * memory.draws).sum((0, 1)) / w.sum()
    np.testing.assert_allclose(post.expect(identity), expected, rtol=1e-5)
    assert np.all(post.weights()[0, :10] == 0)
    np.testing.assert_allclose(post.weights().sum(), 1)


def test_expect_leaves_out_chains_that_diverged_even_where_they_are_nan(memory):
    draws, ok = memory.draws.copy(), np.ones((2, 40), bool)
    draws[1, 20:], ok[1, 20:] = np.nan, False
    post = dataclasses.replace(memory, draws=draws, info=memory.info._replace(ok=ok))
    assert post.diverged == (1,)
    np.testing.assert_allclose(post.expect(identity), draws[0].mean(0), rtol=1e-5)


def test_expect_of_uncollected_draws_that_are_nan(memory):
    draws, log_weight = memory.draws.copy(), np.zeros((2, 40))
    draws[:, ::2], log_weight[:, ::2] = np.inf, -np.inf
    post = dataclasses.replace(memory, draws=draws, info=memory.info._replace(log_weight=log_weight))
    np.testing.assert_allclose(post.expect(identity), draws[:, 1::2].mean((0, 1)), rtol=1e-5)


def test_without_weight_there_is_no_average(memory):
    post = dataclasses.replace(memory, info=memory.info._replace(ok=np.zeros((2, 40), bool)))
    with pytest.raises(ValueError, match="no draw carries weight: every chain diverged or none was collected"):
        post.expect(identity)


def test_cyclical_draws_of_exploration_are_left_out(tmp_path):
    """In memory and from disk, where every shard has other weights."""
    options = dict(kernel=Cyclical(SGLD(0.01), period=12), target=Density(parabola), draws=36)
    post, stored = draw(**options), draw(store=tmp_path / "run", **options)
    exploring = np.arange(36) % 12 < 6
    expected = post.draws[:, ~exploring].mean((0, 1))
    np.testing.assert_allclose(post.expect(identity), expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(stored.expect(identity), expected, rtol=1e-4, atol=1e-6)


def parabola(x):
    return -0.5 * jnp.sum(x**2)


@pytest.mark.parametrize("batch", [None, 7, 10, 1000])
def test_predict_from_disk_and_memory(memory, disk, batch):
    x = {"x": np.asarray(TARGET.data["x"][:20])}
    whole = memory.predict(probability, x)["p"]
    assert whole.shape == (2, 40, 20)
    np.testing.assert_allclose(whole, 1 / (1 + np.exp(-memory.draws @ x["x"].T)), rtol=1e-5)
    same(memory.predict(probability, x, batch), disk.predict(probability, x, batch))
    np.testing.assert_allclose(disk.predict(probability, x, batch)["p"], whole, rtol=1e-6)


@pytest.mark.slow
def test_a_network_is_predicted_from_disk(net, tmp_path):
    options = dict(target=net.target, start=net.starts(noise.key(2, impl="hash"), 2), draws=20, kernel=KERNEL)
    one, two = draw(**options), draw(store=tmp_path / "run", **options)
    x = np.linspace(-1, 1, 6, dtype=np.float32)[:, None]
    same(one.predict(net.predict, x), two.predict(net.predict, x))
    same(one.predict(net.predict, x, batch=2), two.predict(net.predict, x, batch=2))
    again = draw(store=tmp_path / "run", **options)
    same(one.predict(net.predict, x), again.predict(net.predict, x))


# --- going on -----------------------------------------------------------------------------------------------------


def test_more_is_a_longer_run(memory):
    long = draw(draws=60)
    more = memory.more(noise.key(1, impl="hash"), TARGET, 20, chunk=16)
    same(more.draws, long.draws)
    same(more.info, long.info)
    same(more.state, long.state)
    assert more.provenance.n_grad == long.provenance.n_grad == 2 * 60
    assert more.provenance.n_data == long.provenance.n_data == 8 * 2 * 60
    assert more.provenance.seconds > memory.provenance.seconds


def test_more_of_what_is_on_disk_and_to_disk(memory, disk, tmp_path):
    long = memory.more(noise.key(1, impl="hash"), TARGET, 20, chunk=16)
    same(disk.more(noise.key(1, impl="hash"), TARGET, 20, chunk=16).draws, long.draws)
    same(memory.more(noise.key(1, impl="hash"), TARGET, 20, chunk=16, store=tmp_path / "more").draws, long.draws)


def test_the_kernel_is_as_visits_left_it(tmp_path):
    def halve(progress):
        return progress._replace(kernel=replace(progress.kernel, step_size=float(progress.kernel.step_size) / 2))

    post = draw(callbacks=(halve,))
    np.testing.assert_allclose(post.kernel.step_size, 0.02 / 8)
    more = post.more(noise.key(2, impl="hash"), TARGET, 16, chunk=16, callbacks=(halve,))
    np.testing.assert_allclose(more.kernel.step_size, 0.02 / 16)


# --- where it came from ---------------------------------------------------------------------------------------------


def test_provenance(memory, tmp_path):
    where = memory.provenance
    assert where.seed == tuple(np.asarray(jax.random.key_data(noise.key(1, impl="hash"))).tolist())
    assert where.versions["jax"] == jax.__version__
    assert {"python", "langevin", "numpy", "optax"} <= set(where.versions)
    assert "cpu" in where.device
    assert where.layout == "vmap"
    assert where.seconds > 0
    assert (where.n_grad, where.n_data) == (80, 640)
    assert json.loads(json.dumps(dataclasses.asdict(where)))["n_grad"] == 80
    assert Provenance.now(seconds=1.0).seconds == 1.0


def test_a_posterior_shows_itself_without_its_arrays(memory):
    shown = repr(memory)
    assert shown.startswith("Posterior(2 chains × 40 draws by SGHMC(")
    assert "gradients in" in shown
    assert "array" not in shown
    assert len(shown) < 300
