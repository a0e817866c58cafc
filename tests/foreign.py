"""One small net in every library, and rows to ask it about."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from langevin.convert.equinox import from_equinox
from langevin.convert.flax import from_flax
from langevin.convert.function import from_function

X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
Y = np.sin(X[:, 0]).astype(np.float32)


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
