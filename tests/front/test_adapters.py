"""Networks of other libraries: the same outputs, any subset of their parameters, no batch norm and no chance."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from langevin.convert.adapters import Adapted
from langevin.convert.equinox import from_equinox
from langevin.convert.flax import from_flax
from langevin.convert.function import from_function
from langevin.core import tree
from langevin.core.posterior import Posterior, sample
from langevin.nets.bnn import bnn
from langevin.samplers.sgld import SGLD

X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
Y = np.sin(X[:, 0]).astype(np.float32)


# --- one small net in every library ---------------------------------------------------------------------------------


def equinox_mlp():
    net = eqx.nn.MLP(3, 1, 5, 1, key=jax.random.key(0))
    return from_equinox(net), lambda params: jax.vmap(eqx.combine(params, net))(X), "layers.1.*"


def flax_nnx():
    nnx = pytest.importorskip("flax.nnx")
    net = nnx_net()(3, 1, rngs=nnx.Rngs(0))

    def call(params):
        dense = lambda layer, x: x @ layer["kernel"] + layer["bias"][None]
        return dense(params["out"], jnp.tanh(dense(params["first"], X)))

    adapted = from_flax(net)
    assert not net.drop.deterministic  # the user's own net is left as it was
    return adapted, call, "out.*"


def flax_linen():
    net = linen_net()()
    variables = net.init(jax.random.key(0), X, train=False)
    return from_flax(net, variables), lambda params: net.apply({"params": params}, X, train=False), "Dense_1.*"


def haiku_mlp():
    hk = pytest.importorskip("haiku")
    net = hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP([5, 1])(x)))
    return from_function(net.apply, net.init(jax.random.key(0), X)), lambda params: net.apply(params, X), "*linear_1.*"


def one_row(params, x):
    first, last = params
    return jnp.tanh(x @ first["w"]) @ last["w"] + last["b"]


def plain_function():
    rng = np.random.default_rng(1)
    params = ({"w": rng.normal(size=(3, 5))}, {"w": rng.normal(size=(5, 1)), "b": np.zeros(1)})
    params = jax.tree.map(np.float32, params)
    return from_function(one_row, params, batched=False), lambda p: jax.vmap(partial(one_row, p))(X), "1.*"


NETS = {f.__name__: f for f in (equinox_mlp, flax_nnx, flax_linen, haiku_mlp, plain_function)}


def nnx_net(norm=False):
    nnx = pytest.importorskip("flax.nnx")

    class Net(nnx.Module):
        def __init__(self, n_in, n_out, *, rngs):
            self.first = nnx.Linear(n_in, 5, rngs=rngs)
            self.norm = nnx.BatchNorm(5, rngs=rngs) if norm else None
            self.drop = nnx.Dropout(0.5, rngs=rngs)
            self.out = nnx.Linear(5, n_out, rngs=rngs)

        def __call__(self, x):
            x = jnp.tanh(self.first(x))
            x = x if self.norm is None else self.norm(x)
            return self.out(self.drop(x))

    return Net


def linen_net(norm=False):
    linen = pytest.importorskip("flax.linen")

    class Net(linen.Module):
        widths: object = (5, 1)

        @linen.compact
        def __call__(self, x, train=True):
            x = jnp.tanh(linen.Dense(self.widths[0])(x))
            x = linen.BatchNorm(use_running_average=not train)(x) if norm else x
            return linen.Dense(self.widths[1])(linen.Dropout(0.5, deterministic=not train)(x))

    return Net


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


# --- batch norm, dropout, chance ------------------------------------------------------------------------------------


class Normed(eqx.Module):
    """Batch norm and dropout, as Equinox has them: a state and a key in the call."""

    first: eqx.nn.Linear
    norm: eqx.nn.BatchNorm
    drop: eqx.nn.Dropout
    out: eqx.nn.Linear

    def __init__(self, key):
        k_first, k_out = jax.random.split(key)
        self.first = eqx.nn.Linear(3, 5, key=k_first)
        self.norm = eqx.nn.BatchNorm(5, axis_name="batch", mode="ema")
        self.drop = eqx.nn.Dropout(0.5)
        self.out = eqx.nn.Linear(5, 1, key=k_out)

    def __call__(self, x, state, *, key):
        k_drop, _ = jax.random.split(key)
        x, state = self.norm(self.first(x), state)
        return self.out(self.drop(x, key=k_drop)), state


def equinox_normed(**options):
    """Statistics that training has left, and the outputs they give by hand."""
    net, state = eqx.nn.make_with_state(Normed)(jax.random.key(0))
    keys = jax.random.split(jax.random.key(1), 12)
    train = jax.vmap(lambda x, k, s: net(x, s, key=k), axis_name="batch", in_axes=(0, 0, None), out_axes=(0, None))
    _, state = jax.jit(train)(X, keys, state)
    hidden = np.asarray(X @ net.first.weight.T) + np.asarray(net.first.bias)
    hidden = (hidden - hidden.mean(0)) / np.sqrt(hidden.var(0) + net.norm.eps)
    return partial(from_equinox, net, state, **options), hidden @ np.asarray(net.out.weight).T + net.out.bias[None]


def nnx_normed(**options):
    nnx = pytest.importorskip("flax.nnx")
    net = nnx_net(norm=True)(3, 1, rngs=nnx.Rngs(0))
    net(X)
    want = nnx.merge(*nnx.split(net))
    want.eval()
    return partial(from_flax, net, **options), want(X)


def linen_normed(**options):
    net = linen_net(norm=True)()
    variables = net.init(jax.random.key(0), X, train=False)
    _, new = net.apply(variables, X, rngs={"dropout": jax.random.key(1)}, mutable=["batch_stats"])
    variables = {**variables, **new}
    return partial(from_flax, net, variables, **options), net.apply(variables, X, train=False)


@pytest.mark.parametrize("case", [equinox_normed, nnx_normed, linen_normed])
def test_batch_norm_is_refused_or_frozen(case):
    build, want = case()
    with pytest.raises(ValueError, match=r"has batch norm .* pass batch_statistics='frozen'"):
        build()
    with pytest.raises(ValueError, match="'refuse' or 'frozen'"):
        build(batch_statistics="sampled")
    net = build(batch_statistics="frozen")
    np.testing.assert_allclose(net.many(X), want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(net.many(X[:1]), want[:1], rtol=1e-5, atol=1e-5)  # no other row counts
    m = bnn(net, (X, Y), noise=0.3)
    assert not any("kept" in name for name in tree.names(m.position))
    assert tree.size(m.position) == 15 + 5 + 5 + 5 + 5 + 1  # the scale and shift of the norm are parameters
    np.testing.assert_allclose(m.predict(m.position, X)["mean"], want[:, 0], rtol=1e-5, atol=1e-5)


def test_a_fresh_net_with_batch_norm_is_refused_too():
    with pytest.raises(ValueError, match="has batch norm"):
        bnn(from_flax(linen_net(norm=True)()), (X, Y))
    m = bnn(from_equinox(eqx.nn.make_with_state(Normed), batch_statistics="frozen"), (X, Y))
    assert tree.size(m.position["net"]) == 36


class Counting(eqx.Module):
    """A state that every call sets."""

    calls: eqx.nn.StateIndex
    out: eqx.nn.Linear

    def __init__(self, key):
        self.calls, self.out = eqx.nn.StateIndex(jnp.zeros(())), eqx.nn.Linear(3, 1, key=key)

    def __call__(self, x, state):
        return self.out(x) + state.get(self.calls), state.set(self.calls, state.get(self.calls) + 1)


def test_a_state_stays_what_it_was():
    module, state = eqx.nn.make_with_state(Counting)(jax.random.key(0))
    net = from_equinox(module, state)
    want = jax.vmap(module.out)(X)
    for _ in range(2):
        np.testing.assert_allclose(net.many(X), want, rtol=1e-5, atol=1e-6)


def test_a_net_left_in_training_mode_is_refused():
    nnx, linen = pytest.importorskip("flax.nnx"), pytest.importorskip("flax.linen")

    class Stubborn(nnx.Module):
        def __init__(self, *, rngs):
            self.norm, self.out = nnx.BatchNorm(3, rngs=rngs), nnx.Linear(3, 1, rngs=rngs)

        def __call__(self, x):
            return self.out(self.norm(x, use_running_average=False))

    net = linen.Sequential([linen.BatchNorm(use_running_average=False), linen.Dense(1)])
    variables = net.init(jax.random.key(0), X)
    for adapted in (
        from_flax(Stubborn(rngs=nnx.Rngs(0)), batch_statistics="frozen"),
        from_flax(net, variables, batch_statistics="frozen"),
    ):
        with pytest.raises(ValueError, match="still in training mode"):
            bnn(adapted, (X, Y))


def test_rows_that_depend_on_one_another_are_refused():
    """What no adapter can see in a function."""
    normed = lambda w, x: (x - x.mean(0, keepdims=True)) @ w
    with pytest.raises(ValueError, match=r"gives 0 for the first example alone and .* beside the second"):
        bnn(from_function(normed, np.ones((3, 1), np.float32)), (X, Y))
    with pytest.raises(ValueError, match="depend on its own row only"):
        bnn(from_function(normed, init=lambda key: jax.random.normal(key, (3, 1))), (X, Y))
    bnn(from_function(lambda w, x: x @ w, np.ones((3, 1), np.float32)), (X[:1], Y[:1]))


class Noisy(eqx.Module):
    """Random whatever mode it is in."""

    out: eqx.nn.Linear

    def __call__(self, x, key):
        return self.out(x + jax.random.normal(key, x.shape))


def noisy_linen():
    linen = pytest.importorskip("flax.linen")
    net = linen.Sequential([linen.Dense(1), linen.Dropout(0.5, deterministic=False)])
    return from_flax(net, net.init({"params": jax.random.key(0), "dropout": jax.random.key(1)}, X))


def noisy_nnx():
    nnx = pytest.importorskip("flax.nnx")

    class Net(nnx.Module):
        def __init__(self, *, rngs):
            self.out, self.rngs = nnx.Linear(3, 1, rngs=rngs), rngs

        def __call__(self, x):
            return self.out(x + jax.random.normal(self.rngs.noise(), x.shape))

    return from_flax(Net(rngs=nnx.Rngs(0)))


def noisy_haiku():
    hk = pytest.importorskip("haiku")
    net = hk.without_apply_rng(hk.transform(lambda x: hk.dropout(hk.next_rng_key(), 0.5, hk.Linear(1)(x))))
    return from_function(net.apply, net.init(jax.random.key(0), X))


@pytest.mark.parametrize(
    "build",
    [lambda: from_equinox(Noisy(eqx.nn.Linear(3, 1, key=jax.random.key(0)))), noisy_linen, noisy_nnx, noisy_haiku],
    ids=["equinox", "linen", "nnx", "haiku"],
)
def test_chance_is_refused(build):
    with pytest.raises(ValueError, match="draws random numbers in inference mode too"):
        bnn(build(), (X, Y))


def test_haiku_with_rng_or_state_is_refused_in_words():
    hk = pytest.importorskip("haiku")
    with pytest.raises(ValueError, match=r"apply wants an rng.*pass hk.without_apply_rng\(net\).apply"):
        from_function(hk.transform(lambda x: hk.Linear(1)(x)).apply, {})
    with pytest.raises(ValueError, match=r"apply wants a state and an rng.*keep the state fixed"):
        from_function(hk.transform_with_state(lambda x: hk.Linear(1)(x)).apply, {})


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
