"""Networks of other libraries: the same outputs, any subset of their parameters, no batch norm and no chance."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from foreign import (
    NETS,
    X,
    Y,
    equinox_mlp,
    flax_linen,
    linen_net,
    nnx_net,
    one_row,
)

from langevin.convert.adapters import Adapted
from langevin.convert.equinox import from_equinox
from langevin.convert.flax import from_flax
from langevin.convert.function import from_function
from langevin.core import tree
from langevin.core.posterior import Posterior, sample
from langevin.nets.bnn import bnn
from langevin.samplers.sgld import SGLD

# --- what all of them do --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETS)
def test_outputs_and_gradients_are_the_nets_own(name):
    net, call, _ = NETS[name]()
    assert isinstance(net, Adapted)
    energy = lambda out: (jnp.sum(out**2), out)
    ours, out = eqx.filter_jit(eqx.filter_grad(lambda net: energy(net.many(X)), has_aux=True))(net)
    theirs, want = eqx.filter_jit(eqx.filter_grad(lambda params: energy(call(params)), has_aux=True))(net.params)
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(net(X[3]), want[3], rtol=1e-5, atol=1e-6)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5), ours.params, theirs)
    assert all(np.any(g) for g in jax.tree.leaves(ours))


@pytest.mark.parametrize("name", NETS)
def test_part_of_a_net_is_sampled_predicts_and_is_saved(name, key, tmp_path):
    """The last layer moves, the rest stays to the last bit; a loaded posterior says the same."""
    k_start, k_run = jax.random.split(key)
    net, call, last = NETS[name]()
    m = bnn(net, (X, Y), noise=0.3, part=(last,), batch=4)
    assert tree.size(m.position) == 6
    whole = dict(zip(tree.names(net.params), jax.tree.leaves(net.params), strict=True))
    assert set(tree.names(m.position["net"])) < set(whole)
    posterior = sample(k_run, SGLD(1e-3), m.target, m.starts(k_start, 2), draws=3, chunk=3)
    draw = jax.tree.map(lambda u: u[1, 2], posterior.draws)["net"]
    moved = eqx.combine(draw, net).params
    for path, leaf in zip(tree.names(moved), jax.tree.leaves(moved), strict=True):
        assert np.array_equal(leaf, whole[path]) == (path not in tree.names(draw)), path
    seen = posterior.predict(m.predict, X)["mean"]
    np.testing.assert_allclose(seen[1, 2], jax.jit(call)(moved)[:, 0], rtol=1e-4, atol=1e-5)
    posterior.save(tmp_path / "saved")
    again = Posterior.load(tmp_path / "saved", like=m.position)
    jax.tree.map(np.testing.assert_array_equal, again.draws, posterior.draws)
    np.testing.assert_array_equal(again.predict(m.predict, X)["mean"], seen)


def test_paths_are_those_of_the_library():
    names = lambda which: set(tree.names(NETS[which]()[0].params)) & set(tree.names(NETS[which]()[0]))
    assert names("equinox_mlp") == {f"layers.{i}.{w}" for i in (0, 1) for w in ("weight", "bias")}
    assert names("flax_nnx") == {f"{i}.{w}" for i in ("first", "out") for w in ("kernel", "bias")}
    assert names("flax_linen") == {f"Dense_{i}.{w}" for i in (0, 1) for w in ("kernel", "bias")}
    assert names("haiku_mlp") == {f"mlp/~/linear_{i}.{w}" for i in (0, 1) for w in "wb"}
    assert names("plain_function") == {"0.w", "1.w", "1.b"}


def test_priors_by_path_and_by_fan_in():
    scale = lambda net, prior: bnn(net, (X, Y), noise=0.3, prior=prior).target.log_prior.scale["net"].params
    linen = scale(flax_linen()[0], {"*kernel": 0.5, "*": 2.0})
    assert [float(linen["Dense_0"][w]) for w in ("kernel", "bias")] == [0.5, 2.0]
    # units along the last axis in Flax, along the first in Equinox
    assert float(scale(flax_linen()[0], "fan_in")["Dense_1"]["kernel"]) == pytest.approx(5**-0.5)
    assert float(scale(equinox_mlp()[0], "fan_in").layers[1].weight) == pytest.approx(5**-0.5)


def test_a_bare_array_is_a_parameter():
    net = from_function(lambda w, x: x @ w, np.ones((3, 1), np.float32))
    m = bnn(net, (X, Y), noise=0.3)
    assert tree.names(m.position["net"]) == ["params"]
    np.testing.assert_allclose(m.predict(m.position, X)["mean"], X.sum(1), rtol=1e-5)


# --- starts ---------------------------------------------------------------------------------------------------------


def haiku_fresh():
    hk = pytest.importorskip("haiku")
    net = hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP([5, 1])(x)))
    return from_function(net.apply, init=net.init)


FRESH = {
    "equinox": lambda: from_equinox(partial(eqx.nn.MLP, 3, 1, 5, 1)),
    "nnx": lambda: from_flax(partial(nnx_net(), 3, 1)),
    "linen": lambda: from_flax(linen_net()()),
    "linen with a sample": lambda: from_flax(linen_net()(widths=[5, 1]), sample=X[:1]),
    "haiku": haiku_fresh,
    "function": lambda: from_function(one_row, init=lambda k: plain(k), batched=False),
}


def plain(key):
    k_first, k_last = jax.random.split(key)
    return ({"w": jax.random.normal(k_first, (3, 5))}, {"w": jax.random.normal(k_last, (5, 1)), "b": jnp.zeros(1)})


@pytest.mark.parametrize("name", FRESH)
def test_every_chain_has_its_own_initialisation(name, key):
    m = bnn(FRESH[name](), (X, Y), noise=0.3)
    starts = m.starts(key, 2)
    assert jax.tree.structure(starts) == jax.tree.structure(m.position)
    wide = [u for u in jax.tree.leaves(starts) if u.ndim == 3]
    assert len(wide) == 2
    assert all(np.abs(u[0] - u[1]).mean() > 0.1 for u in wide)
    values = jax.jit(lambda target, starts: jax.vmap(target.log_density)(starts))(m.target, starts)
    assert np.isfinite(values).all()
    assert values[0] != values[1]


def test_chains_start_near_given_values_as_far_apart_as_asked(key):
    net = flax_linen()[0]
    for spread, k_start in zip((0.01, 0.5), jax.random.split(key), strict=True):
        starts = bnn(net, (X, Y), noise=0.3, spread=spread).starts(k_start, 200)["net"].params["Dense_0"]["kernel"]
        gap = starts - net.params["Dense_0"]["kernel"][None]
        assert np.std(gap) == pytest.approx(spread, rel=0.1)


# --- mistakes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: from_function(one_row), ValueError, "give `params` .* or `init`"),
        (lambda: from_function(lambda p, x, y: x, {}), ValueError, "it wants p, x, y"),
        (lambda: from_function(one_row, {"w": "tanh"}), TypeError, "must be a tree of arrays"),
        (lambda: from_equinox(3), TypeError, "int is no Equinox module"),
        (
            lambda: from_equinox(eqx.nn.BatchNorm(3, "b", mode="ema"), batch_statistics="frozen"),
            ValueError,
            "with state",
        ),
        (lambda: from_equinox(lambda key: 3)(jax.random.key(0)), TypeError, "builds int"),
        (lambda: from_flax(3), TypeError, "int is no Flax module"),
        (lambda: from_flax(linen_net()), TypeError, "Net is no Flax module"),
        (lambda: from_flax(lambda rngs: 3)(jax.random.key(0)), TypeError, "builds int"),
        (lambda: from_flax(nnx_net(), sample=X), TypeError, "for Linen modules"),
        (lambda: from_flax(linen_net()(), {"Dense_0": 1}), ValueError, "no collection 'params' but"),
        (lambda: from_flax(linen_net()(), {"params": {}}, X), TypeError, "not both"),
        (lambda: from_flax(linen_net()())(jax.random.key(0)), ValueError, "pass one as `sample`"),
        (lambda: bnn(eqx.nn.MLP(3, 1, 5, 1, key=jax.random.key(0)), (X, Y)), TypeError, "pass from_equinox"),
        (
            lambda: bnn(from_function(lambda w, x: (x @ w, x), np.ones((3, 1))), (X, Y)),
            ValueError,
            "returns tuple for 2",
        ),
        (
            lambda: bnn(from_function(lambda w, x: x @ w, np.ones(3)), (X, Y)),
            ValueError,
            r"returns \(2,\) for 2 examples",
        ),
    ],
)
def test_mistakes_get_a_sentence(build, error, words):
    if "from_flax" in build.__code__.co_names:
        pytest.importorskip("flax")
    with pytest.raises(error, match=words):
        build()


def test_whole_numbers_do_not_shift_the_paths():
    """A leaf that cannot be sampled has a path too."""
    net = from_function(
        lambda p, x: x @ p["w"] + p["b"][None], {"a": np.arange(2), "b": np.zeros(1), "w": np.ones((3, 1))}
    )
    m = bnn(net, (X, Y), noise=0.3, part=("w",))
    assert tree.names(m.position["net"]) == ["w"]


def test_nothing_foreign_is_imported_before_it_is_needed():
    import subprocess
    import sys

    code = "import sys, langevin.convert as c; c.from_torch, c.from_flax, c.from_function; "
    code += "print([m for m in ('flax', 'haiku', 'torch', 'safetensors') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
