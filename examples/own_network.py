"""
How do I make only the last layer of my Flax network Bayesian?
==============================================================

You have a network and its trained weights, and training again is out of the question. This example samples the last
layer of a Flax network and leaves the other layers as they are, then samples all layers for comparison. The data have
a gap, where only the second kind of posterior is in doubt.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from flax import linen as nn

import langevin as lv

# %%
# A network of your own
# ---------------------
# A Linen module with dropout, trained by Adam on squared errors. Nothing here knows of this library.


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train: bool = True):
        x = nn.tanh(nn.Dense(16)(x))
        x = nn.tanh(nn.Dense(16)(x))
        x = nn.Dropout(0.05, deterministic=not train)(x)
        return nn.Dense(1)(x)


rng = np.random.default_rng(0)
x = (rng.uniform(0.4, 1.5, size=(120, 1)) * rng.choice([-1.0, 1.0], size=(120, 1))).astype("float32")
y = (np.sin(3 * x[:, 0]) + 0.1 * rng.normal(size=120)).astype("float32")

net, optimizer = Net(), optax.adam(3e-3)
variables = net.init(jax.random.key(0), x, train=False)


def step(carry, key):
    variables, state = carry
    loss = lambda v: jnp.mean((net.apply(v, x, rngs={"dropout": key})[:, 0] - y) ** 2)
    updates, state = optimizer.update(jax.grad(loss)(variables), state)
    return (optax.apply_updates(variables, updates), state), None


keys = jax.random.split(jax.random.key(1), 1500)
(variables, _), _ = jax.jit(lambda carry: jax.lax.scan(step, carry, keys))((variables, optimizer.init(variables)))

# %%
# Two posteriors
# --------------
# ``lv.from_flax`` puts the network into its inference mode: dropout is off. The names of parameters stay those of
# Flax, and ``part`` chooses by name what is sampled. Without ``variables`` every chain has an initialization of its
# own.

last = lv.bnn(lv.from_flax(net, variables), (x, y), noise=0.1, part=("Dense_2.*",))
whole = lv.bnn(lv.from_flax(net), (x, y), noise=0.1, prior={"Dense_0.*": 2.0, "*kernel": 0.5, "*": 1.0})

k_last, k_near, k_fresh, k_train, k_whole = jax.random.split(lv.key(0), 5)
near = last.starts(k_near, chains=4)
trained = lv.warm_start(k_train, whole.target, whole.starts(k_fresh, chains=4), steps=1500)
posteriors = {
    "last layer": lv.sample(k_last, lv.HMC(0.01, n_leapfrog=30), last.target, near, draws=400, warmup=40, thin=5),
    "all layers": lv.sample(k_whole, lv.MCLMC(), whole.target, trained, draws=200, warmup=50, thin=20, tune="auto"),
}
for name, model in (("last layer", last), ("all layers", whole)):
    weights = sum(u.size for u in jax.tree.leaves(model.position))
    mixed = lv.diagnostics.rhat(posteriors[name].predict(model.predict, x)["mean"]).max()
    print(f"{name}: {weights} weights sampled, largest R-hat of predictions at the data {mixed:.3f}")

# %%
# The last layer can be checked
# -----------------------------
# With the other layers fixed, a Gaussian likelihood and a normal prior, the posterior of the last layer is a Bayesian
# linear regression on the features. Its predictive mean and deviation have a closed form.

line = np.linspace(-2, 2, 161, dtype="float32")[:, None]


def features(at):
    """The outputs of the hidden layers with a column of ones, in double precision."""
    dense = variables["params"]
    for name in ("Dense_0", "Dense_1"):
        at = np.tanh(at @ np.asarray(dense[name]["kernel"], float) + np.asarray(dense[name]["bias"], float))
    return np.column_stack([at, np.ones(len(at))])


precision = features(x).T @ features(x) / 0.1**2 + np.eye(17)  # the prior of every weight is N(0, 1)
exact_mean = features(line) @ np.linalg.solve(precision, features(x).T @ y / 0.1**2)
exact_std = np.sqrt(np.sum(features(line) * np.linalg.solve(precision, features(line).T).T, axis=1))

means = {
    "last layer": posteriors["last layer"].predict(last.predict, line)["mean"].reshape(-1, len(line)),
    "all layers": posteriors["all layers"].predict(whole.predict, line)["mean"].reshape(-1, len(line)),
}

# %%
# The picture
# -----------

figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.3), sharey=True, layout="constrained")
for axis, (name, draws) in zip(axes, means.items(), strict=True):
    mean, std = draws.mean(0), draws.std(0)
    axis.fill_between(line[:, 0], mean - 2 * std, mean + 2 * std, color="#0072B2", alpha=0.25, linewidth=0)
    axis.plot(line[:, 0], mean, color="#0072B2", label="mean ± 2 deviations of draws")
    axis.plot(x[:, 0], y, ".", color="#D55E00", markersize=3, label="data")
    axis.set(title=f"{name} sampled", xlabel="x", ylim=(-3, 3))
for sign in (-2, 2):
    axes[0].plot(line[:, 0], exact_mean + sign * exact_std, "k:", linewidth=1, label="exact" if sign > 0 else None)
axes[0].set_ylabel("y")
axes[0].legend(fontsize="small", frameon=False, loc="upper center")
plt.show()

# %%
# What holds
# ----------
# The draws of the last layer agree with the closed form. In the gap they are hardly in doubt: the features were
# learned without data there. With all layers sampled the deviation in the gap is several times as large.

gap, off = np.abs(line[:, 0]) < 0.3, means["last layer"]
spread = {name: draws.std(0)[gap].mean() for name, draws in means.items()}
print("mean deviation in the gap:", spread)
assert np.max(np.abs(off.mean(0) - exact_mean) / exact_std) < 0.5
assert 0.8 < np.mean(off.std(0) / exact_std) < 1.2
assert spread["all layers"] > 2 * spread["last layer"]
