"""Posteriors saved, loaded and exported."""

import dataclasses
import json
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_posterior import TARGET, draw, same, square

from langevin.core import document, noise
from langevin.core.files import StoreError
from langevin.core.kernel import PerChain
from langevin.core.posterior import Posterior
from langevin.core.schedule import Polynomial, Scaled
from langevin.core.store import Store
from langevin.core.target import Density
from langevin.dynamics.mass import DenseMetric, DiagonalMetric
from langevin.samplers.hmc import HMC
from langevin.samplers.optimize import Optimize
from langevin.samplers.sgld import SGLD
from langevin.samplers.wrappers.cyclical import Cyclical
from langevin.targets.zoo import Scales

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
    with pytest.raises(ValueError, match="a position has more than 100 numbers; pass fn to say what of it"):
        post.to_arviz()
    with pytest.raises(ValueError, match="more than 2 numbers"):
        memory.to_arviz(limit=2)
