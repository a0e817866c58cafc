"""Bring your own network: a Flax net, trained as usual, then its last layer sampled.

A Linen net is fitted to a noisy sine by Adam. Its weights are the start; only the path `Dense_2.*` is sampled, all else
stays as trained. Then the same net without values: every chain is initialised on its own, and all weights are sampled.
Between the data draws lie further apart than among them, which a trained net alone does not say.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

import langevin


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train: bool = True):
        x = nn.tanh(nn.DenseMetric(16)(x))
        x = nn.tanh(nn.DenseMetric(16)(x))
        x = nn.Dropout(0.05, deterministic=not train)(x)
        return nn.DenseMetric(1)(x)


def data(n=120):
    """sin(3x) with noise 0.1; nothing between −0.4 and 0.4."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.4, 1.5, size=(n, 1)) * rng.choice([-1.0, 1.0], size=(n, 1))
    y = np.sin(3 * x[:, 0]) + 0.1 * rng.normal(size=n)
    return x.astype(np.float32), y.astype(np.float32)


def trained(net, x, y, steps=1500):
    """The variables after Adam on squared errors, with dropout: nothing of this library."""
    variables = net.init(jax.random.key(0), x, train=False)
    optimizer = optax.adam(3e-3)

    def loss(variables, key):
        out = net.apply(variables, x, rngs={"dropout": key})
        return jnp.mean((out[:, 0] - y) ** 2)

    def step(carry, key):
        variables, state = carry
        updates, state = optimizer.update(jax.grad(loss)(variables, key), state)
        return (optax.apply_updates(variables, updates), state), None

    keys = jax.random.split(jax.random.key(1), steps)
    (variables, _), _ = jax.jit(lambda carry: jax.lax.scan(step, carry, keys))((variables, optimizer.init(variables)))
    return variables


def report(name, key, model, kernel, x, y, gap):
    """Sample and print: error of the mean, and how far draws are apart where data are and where none are."""
    k_start, k_run = jax.random.split(key)
    starts = model.starts(k_start, chains=4)
    posterior = langevin.sample(k_run, kernel, model.target, starts, draws=300, warmup=300)
    means, beyond = (posterior.predict(model.predict, at)["mean"] for at in (x, gap))
    error = np.sqrt(np.mean((means.mean((0, 1)) - y) ** 2))
    weights = sum(u.size for u in jax.tree.leaves(model.position))
    print(f"{name}: {weights} weights sampled, acceptance {posterior.info.acceptance.mean():.2f}")
    print(f"  error of the mean {error:.3f}; spread of draws among data {means.std((0, 1)).mean():.3f}", end="")
    print(f", between them {beyond.std((0, 1)).mean():.3f}")


def main():
    x, y = data()
    gap = np.linspace(-0.3, 0.3, 20, dtype=np.float32)[:, None]
    net = Net()
    k_last, k_all = jax.random.split(langevin.key(0))
    last = langevin.bnn(langevin.from_flax(net, trained(net, x, y)), (x, y), noise=0.1, part=("Dense_2.*",))
    report("last layer of the trained net", k_last, last, langevin.HMC(0.01, n_leapfrog=20), x, y, gap)
    prior = {"Dense_0.*": 2.0, "*kernel": 0.5, "*": 1.0}
    whole = langevin.bnn(langevin.from_flax(net), (x, y), noise=0.1, prior=prior)
    report("all layers, from scratch", k_all, whole, langevin.HMC(0.003, n_leapfrog=50), x, y, gap)


if __name__ == "__main__":
    main()
