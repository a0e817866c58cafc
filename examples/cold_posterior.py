"""
Is the posterior cold?
======================

Wenzel et al. (2020) found that image networks predict best at temperatures T well below 1, where the posterior p^(1/T)
is sharper than Bayes' rule says. A sampler that is too hot can cause that, and so can a prior that is wrong. This
example separates the two. On data simulated from the model itself Bayes' rule is the best prediction on average, so
that the best temperature must be 1. On real data it need not be.
"""

from functools import partial

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import langevin as lv

# %%
# The model
# ---------
# A network 64-16-10 for images of digits, 200 of them to learn from, and a normal prior of standard deviation 0.3 for
# every weight.

images, digits = load_digits(return_X_y=True)
images = ((images - images.mean()) / images.std()).astype("float32")
x, x_new, y, y_new = train_test_split(images, digits, train_size=200, random_state=0)
build, prior = partial(lv.MLP, (64, 16, 10), activation=jnp.tanh), 0.3
model = lv.bnn(build, (x, y), kind="categorical", prior=prior)

# %%
# Labels from the model
# ---------------------
# A network is drawn from the prior, and it draws labels for the same images. Four such data sets show how much chance
# is in the figure.


def simulate(key, x):
    """Labels of all images by a network of the prior."""
    k_net, *k_labels = jax.random.split(key, 1 + len(x))
    leaves, structure = jax.tree.flatten(model.position)
    keys = jax.random.split(k_net, len(leaves))
    drawn = [prior * jax.random.normal(k, u.shape) for k, u in zip(keys, leaves, strict=True)]
    proba = np.asarray(model.predict(jax.tree.unflatten(structure, drawn), x)["proba"], np.float64)
    random = np.random.default_rng(int(jax.random.bits(k_labels[0])))
    return np.array([random.choice(10, p=p / p.sum()) for p in proba])


everything = np.concatenate([x, x_new])
labels = [simulate(k, everything) for k in jax.random.split(lv.key(0), 4)]

# %%
# The sweep
# ---------
# The temperature is a field of the kernel, and the data are fields of the target: all runs share one compiled program.
# HMC is exact at every temperature, so that no bias of a sampler is in the figure.

temperatures = np.array([0.1, 0.3, 1.0, 3.0, 10.0])


def test_nll(model, y, y_new):
    """Mean test NLL at every temperature."""
    target = lv.replace(model.target, data=(x, jnp.asarray(y)))
    start, found = model.starts(lv.key(1), chains=4), []
    for T in temperatures:
        kernel = lv.HMC(0.035 * min(T, 1.0) ** 0.25, n_leapfrog=15, temperature=T)
        posterior = lv.sample(lv.key(2), kernel, target, start, draws=40, warmup=40, thin=3)
        proba = posterior.predict(model.predict, x_new)["proba"].mean((0, 1))
        found.append(-np.mean(np.log(proba[np.arange(len(y_new)), y_new])))
    print(" ".join(f"{nll:.3f}" for nll in found))
    return np.array(found)


simulated = np.array([test_nll(model, both[:200], both[200:]) for both in labels])
real = test_nll(model, y, y_new)
wide = test_nll(lv.bnn(build, (x, y), kind="categorical", prior=1.0), y, y_new)

# %%
# The picture
# -----------

figure, axes = plt.subplots(1, 2, figsize=(7.6, 3.3), layout="constrained")
axes[0].plot(temperatures, simulated.T - simulated[:, 2], color="#0072B2", alpha=0.35, linewidth=1)
axes[0].plot(temperatures, (simulated - simulated[:, 2:3]).mean(0), "o-", color="#0072B2", label="mean of 4 data sets")
axes[0].set(title="labels drawn from the model", ylabel="test NLL minus that at T = 1 (nats)")
axes[0].legend(fontsize="small", frameon=False)
axes[1].plot(temperatures, real, "o-", color="#D55E00", label="prior deviation of weights 0.3")
axes[1].plot(temperatures, wide, "s--", color="#009E73", label="prior deviation of weights 1")
axes[1].set(title="real labels", ylabel="test NLL (nats)", ylim=(0, None))
axes[1].legend(fontsize="small", frameon=False)
for axis in axes:
    axis.set(xscale="log", xlabel="temperature T")
    axis.axvline(1.0, color="0.7", linewidth=1, zorder=0)
plt.show()

# %%
# What holds
# ----------
# On simulated labels T = 1 has the smallest mean NLL, as it must. On the real digits the coldest posterior predicts
# best under both priors, although the sampler is exact: the cause is the model. Its prior expects labels that are far
# less certain than those of well-written digits. A wider prior helps more than a lower temperature does.

assert temperatures[simulated.mean(0).argmin()] == 1.0
assert np.all(simulated[:, [0, -1]] > simulated[:, 2:3])
assert real.argmin() == wide.argmin() == 0
assert wide[2] < real[0]
