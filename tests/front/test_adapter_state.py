"""Nets with batch norm, dropout, counters or random outputs: frozen where possible, else refused in words."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from foreign import X, Y, linen_net, nnx_net

from langevin.convert.equinox import from_equinox
from langevin.convert.flax import from_flax
from langevin.convert.function import from_function
from langevin.core import tree
from langevin.nets.bnn import bnn


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
