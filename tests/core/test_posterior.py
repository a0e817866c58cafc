"""Posterior: the same numbers in memory, from disk and after a round trip; averages leave out what they must."""

import dataclasses
import json
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from langevin.core import document, noise
from langevin.core.files import StoreError
from langevin.core.kernel import PerChain, replace
from langevin.core.posterior import Posterior, Provenance, sample
from langevin.core.schedule import Polynomial, Scaled
from langevin.core.shards import Stored
from langevin.core.store import Store
from langevin.core.target import Density
from langevin.dynamics.mass import DenseMetric, DiagonalMetric
from langevin.nets.bnn import bnn
from langevin.nets.mlp import MLP
from langevin.samplers.hmc import HMC
from langevin.samplers.optimize import Optimize
from langevin.samplers.sghmc import SGHMC
from langevin.samplers.sgld import SGLD
from langevin.samplers.wrappers.cyclical import Cyclical
from langevin.targets.zoo import Scales, logistic

TARGET = logistic(noise.key(0, impl="hash"), 50, 3, batch=8, order="epoch")
START = np.linspace(-0.5, 0.5, 6, dtype=np.float32).reshape(2, 3)
KERNEL = SGHMC(step_size=0.02, friction=2.0)


def draw(seed=1, *, kernel=KERNEL, target=TARGET, start=START, draws=40, chunk=16, **options):
    return sample(noise.key(seed, impl="hash"), kernel, target, start, draws=draws, chunk=chunk, **options)


def same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for u, v in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert jnp.result_type(u) == jnp.result_type(v)
        np.testing.assert_array_equal(u, v)


@pytest.fixture(scope="module")
def memory():
    return draw()


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    return draw(store=tmp_path_factory.mktemp("posterior") / "run")


def square(x):
    return {"square": x**2, "sum": jnp.sum(x)}


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


@pytest.fixture(scope="module")
def net():
    """A small network whose position is an Equinox module, weights before biases."""
    x = np.linspace(-1, 1, 20, dtype=np.float32)[:, None]
    return bnn(build, (x, np.sin(3 * x[:, 0])), noise=0.3, batch=10, order="epoch")


def build(key):
    return MLP((1, 4, 1), key, jnp.tanh)


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


# --- save and load ------------------------------------------------------------------------------------------------


def test_a_round_trip_is_exact(memory, tmp_path):
    memory.save(tmp_path / "saved")
    back = Posterior.load(tmp_path / "saved")
    same(back.draws, memory.draws)
    same(back.info, memory.info)
    for one, two in zip(jax.tree.leaves(back.state), jax.tree.leaves(memory.state), strict=True):
        np.testing.assert_array_equal(one, two)
    assert back.provenance == memory.provenance
    assert repr(back.kernel) == repr(memory.kernel)
    # the loaded chains go on as the old ones would, their epoch's order included
    go_on = [p.more(noise.key(1, impl="hash"), TARGET, 20, chunk=16) for p in (memory, back)]
    same(go_on[0].draws, go_on[1].draws)
    same(go_on[0].state, go_on[1].state)


def test_a_round_trip_from_disk(disk, memory, tmp_path):
    disk.save(tmp_path / "saved")
    back = Posterior.load(tmp_path / "saved")
    same(back.draws, memory.draws)
    same(back.info, memory.info)


def test_a_round_trip_of_bfloat16(tmp_path):
    post = draw(store=Store(tmp_path / "run", dtype="bfloat16"))
    post.save(tmp_path / "saved")
    same(Posterior.load(tmp_path / "saved").draws, post.draws.load())


def test_a_round_trip_of_a_network(net, tmp_path):
    """Weights come back as weights and biases as biases."""
    start = net.starts(noise.key(2, impl="hash"), 2)
    post = draw(target=net.target, start=start, draws=20)
    post.save(tmp_path / "saved")
    back = Posterior.load(tmp_path / "saved", like=net.position)
    same(back.draws, post.draws)
    x = np.linspace(-1, 1, 6, dtype=np.float32)[:, None]
    same(back.predict(net.predict, x), post.predict(net.predict, x))
    go_on = [p.more(noise.key(1, impl="hash"), net.target, 10, chunk=16) for p in (post, back)]
    same(go_on[0].draws, go_on[1].draws)
    # a network of the library is known by its class: `like` is for others
    same(
        Posterior.load(tmp_path / "saved").more(noise.key(1, impl="hash"), net.target, 10, chunk=16).draws,
        go_on[0].draws,
    )
    with pytest.raises(StoreError, match=r"a position has 4 arrays and `like` 1; they do not fit"):
        Posterior.load(tmp_path / "saved", like=np.zeros(3))


def test_a_network_whose_class_is_not_known_is_a_dict_of_its_leaves(tmp_path):
    class Net(eqx.Module):
        weight: jax.Array
        bias: jax.Array

    target = Density(net_density)
    start = {"net": Net(np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32))}
    post = draw(target=target, start=start, kernel=SGLD(0.05), draws=4, chunk=4)
    post.save(tmp_path / "saved")
    plain = Posterior.load(tmp_path / "saved")
    assert list(plain.draws["net"]) == ["weight", "bias"]  # in the order of the leaves
    np.testing.assert_array_equal(plain.draws["net"]["weight"], post.draws["net"].weight)
    with pytest.raises(TypeError, match=r"the target does not take these positions .*; load them with `like`"):
        plain.more(noise.key(1, impl="hash"), target, 4)
    back = Posterior.load(tmp_path / "saved", like=jax.tree.map(lambda u: u[0], start))
    go_on = [p.more(noise.key(1, impl="hash"), target, 4, chunk=4) for p in (post, back)]
    same(go_on[0].draws, go_on[1].draws)


def net_density(position):
    return -0.5 * jnp.sum((position["net"].weight - 2.0) ** 2) - 2.0 * jnp.sum(position["net"].bias ** 2)


@pytest.mark.parametrize(
    "kernel",
    [
        SGLD(3e-3, temperature=0.5, noise="rademacher"),
        SGLD(Polynomial(0.1, power=0.55), temperature=Scaled(Polynomial(1.0), 0.5)),
        HMC(0.1, n_leapfrog=3, integrator="mclachlan"),
        HMC(0.1, metric=DiagonalMetric({"a": jnp.ones(3), "b": jnp.full((2, 2), 2.0)})),
        HMC(0.1, metric=DenseMetric(jnp.eye(7) * 2)),
        Cyclical(SGLD(1e-2), period=20, exploration=0.25),
        PerChain(SGLD(step_size=jnp.array([0.1, 0.2]), temperature=jnp.ones(2))),
    ],
    ids=lambda k: repr(k)[:24],
)
def test_kernels_are_rebuilt_with_their_numbers(kernel, tmp_path):
    target = Scales()
    start = target.exact(noise.key(0, impl="hash"), 2)
    post = saved(target, start, kernel)
    post.save(tmp_path / "saved")
    back = Posterior.load(tmp_path / "saved").kernel
    assert jax.tree.structure(back) == jax.tree.structure(kernel)
    same(jax.tree.leaves(back), jax.tree.leaves(kernel))


def saved(target, start, kernel):
    """A posterior with that kernel; its draws are another's, for only the kernel counts."""
    one = SGLD(0.05)
    return dataclasses.replace(draw(target=target, start=start, kernel=one, draws=4, chunk=4), kernel=kernel)


@pytest.mark.parametrize(
    "kernel", [SGLD(optax.constant_schedule(0.01)), Optimize(optax.sgd(0.1))], ids=["schedule", "ascend"]
)
def test_a_kernel_with_a_function_is_told_when_it_is_saved_and_when_it_is_asked_for(kernel, tmp_path):
    target = Scales()
    post = saved(target, target.exact(noise.key(0, impl="hash"), 2), kernel)
    said = r"the kernel's (step_size|optimizer)\..* code that a file cannot hold; use a record .*posterior, kernel=…\)"
    with pytest.warns(UserWarning, match=said):
        post.save(tmp_path / "saved")
    back = Posterior.load(tmp_path / "saved")
    assert repr(back.kernel) == repr(kernel)
    with pytest.raises(TypeError, match=said):
        back.more(noise.key(1, impl="hash"), target, 4)
    with pytest.raises(TypeError, match=said):
        back.kernel.law()
    back.save(tmp_path / "again")
    with pytest.raises(TypeError, match=said):
        Posterior.load(tmp_path / "again").kernel.law()
    more = dataclasses.replace(back, kernel=SGLD(0.05)).more(noise.key(1, impl="hash"), target, 4, chunk=4)
    assert more.draws["a"].shape == (2, 8, 3)


def test_a_file_names_no_classes_of_its_own(memory, tmp_path):
    memory.save(tmp_path / "saved")
    file = tmp_path / "saved" / "posterior.json"
    for path in ("subprocess:Popen", "pathlib:Path", "langevin.cli.__main__:main", "langevin.core.store:Store"):
        body = json.loads(file.read_text())
        del body["sha256"]
        body["body"]["kernel"]["class"] = path
        file.write_bytes(document.seal(body))
        with pytest.raises(TypeError, match=f"{path} is not known here"):
            Posterior.load(tmp_path / "saved").kernel.law()
    assert "langevin.cli.__main__" not in sys.modules


def test_where_there_is_no_posterior(memory, tmp_path):
    with pytest.raises(StoreError, match="holds no saved posterior"):
        Posterior.load(tmp_path)
    memory.save(tmp_path / "saved")
    with pytest.raises(StoreError, match="is not empty; save to another folder"):
        memory.save(tmp_path / "saved")


def test_another_kernel_needs_other_states(memory):
    with pytest.raises(TypeError, match="posterior: its state does not fit this kernel and target"):
        dataclasses.replace(memory, kernel=SGLD(0.01)).more(noise.key(0, impl="hash"), TARGET, 4)


# --- ArviZ --------------------------------------------------------------------------------------------------------


def test_to_arviz(memory):
    az = pytest.importorskip("arviz")
    data = memory.to_arviz()
    assert data["posterior"]["x"].shape == (2, 40, 3)
    np.testing.assert_array_equal(data["posterior"]["x"].values, memory.draws)
    np.testing.assert_array_equal(data["sample_stats"]["lp"].values, memory.info.log_density)
    assert az.ess(data) is not None
    likelihood = {"y": np.zeros((2, 40, 5), np.float32)}
    observed = {"y": np.zeros(5, np.float32)}
    data = memory.to_arviz(square, log_likelihood=likelihood, observed_data=observed)
    assert set(data["posterior"].data_vars) == {"square", "sum"}
    assert data["log_likelihood"]["y"].shape == (2, 40, 5)
    assert data["observed_data"]["y"].shape == (5,)


def test_to_arviz_leaves_out_what_averages_leave_out(memory):
    pytest.importorskip("arviz")
    ok, log_weight = np.ones((2, 40), bool), np.zeros((2, 40))
    ok[1, 3], log_weight[:, :10] = False, -np.inf
    post = dataclasses.replace(memory, info=memory.info._replace(ok=ok, log_weight=log_weight))
    data = post.to_arviz(log_likelihood={"y": np.zeros((2, 40, 5), np.float32)})
    np.testing.assert_array_equal(data["posterior"]["x"].values, memory.draws[:1, 10:])
    assert data["sample_stats"]["lp"].shape == (1, 30)
    assert data["log_likelihood"]["y"].shape == (1, 30, 5)


def test_to_arviz_from_disk_names_leaves(tmp_path):
    pytest.importorskip("arviz")
    target = Scales()
    start = target.exact(noise.key(0, impl="hash"), 2)
    post = draw(target=target, start=start, kernel=SGLD(0.05), draws=8, chunk=4, store=tmp_path / "run")
    data = post.to_arviz()
    assert set(data["posterior"].data_vars) == {"a", "b"}
    np.testing.assert_array_equal(data["posterior"]["b"].values, post.draws.load()["b"])


def test_a_million_weights_are_not_exported_unasked(memory):
    pytest.importorskip("arviz")
    post = dataclasses.replace(memory, draws=np.broadcast_to(np.float32(0), (2, 40, 1_000_000)))
    with pytest.raises(ValueError, match="a position has more than 100 numbers; pass fn to say what to export"):
        post.to_arviz()
    with pytest.raises(ValueError, match="more than 2 numbers"):
        memory.to_arviz(limit=2)


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
