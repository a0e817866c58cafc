"""
Which images should be labeled next?
====================================

Labels cost money, and are bought a batch at a time. BALD takes the images whose labels would each tell most about the
network. Where the pool holds near copies it takes the copies together, and pays several times for one answer.
BatchBALD counts what the labels of a batch tell together. This example compares both with a random choice, on digits
whose pool holds every image five times.
"""

from functools import partial

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import langevin as lv
from langevin.diagnostics import bald, batchbald

# %%
# The data
# --------
# The pool is 200 images of 8 × 8 pixels, five times each with a little noise. 1000 other images are the test set. Ten
# images of the pool are labeled at first, and five times a batch of eight is added.

FIRST, BATCH, ROUNDS, COPIES, SEEDS = 10, 8, 5, 5, 3
images, labels = load_digits(return_X_y=True)
images = (images / 16).astype("float32")


def problem(seed):
    """A pool with copies, and images to test on."""
    random = np.random.default_rng(seed)
    order = random.permutation(len(images))
    pool, test = np.repeat(order[:200], COPIES), order[200:1200]
    noise = 0.03 * random.normal(size=(len(pool), 64)).astype("float32")
    return images[pool] + noise, labels[pool], images[test], labels[test], random


# %%
# The posterior
# -------------
# The posterior is sampled anew after every batch. Its arrays keep one size, and rows without a label have weight 0, so
# that everything is compiled once.

SIZE = FIRST + BATCH * ROUNDS
empty = np.zeros((SIZE, 64), "float32"), np.arange(SIZE) % 10
model = lv.bnn(partial(lv.MLP, (64, 32, 10)), empty, kind="categorical", prior=1.0)
starts = model.starts(lv.key(0), chains=8)


def log_likelihood(position, data):
    """Of every row, times its weight."""
    x, y, weight = data
    return weight * model.target.log_likelihood(position, (x, y))


def posterior(key, x, y):
    """80 networks, given labeled images: eight are trained, and HMC goes on from them."""
    data = np.zeros((SIZE, 64), "float32"), np.zeros(SIZE, int), np.zeros(SIZE, "float32")
    for whole, part in zip(data, (x, y, 1.0), strict=True):
        whole[: len(x)] = part
    target = lv.Bayes(model.target.log_prior, log_likelihood, tuple(map(jnp.asarray, data)))
    k_train, k_run = jax.random.split(key)
    trained = lv.warm_start(k_train, target, starts, steps=300)
    found = lv.sample(k_run, lv.HMC(0.04, n_leapfrog=15), target, trained, draws=10, warmup=15, thin=2)
    return jax.tree.map(lambda u: u.reshape(-1, *u.shape[2:]), found.draws)


@jax.jit
def proba(draws, x):
    """Probabilities (draw, image, class)."""
    return jax.lax.map(lambda position: model.predict(position, x)["proba"], draws)


# %%
# The loop
# --------
# A choice is a function of the probabilities of all draws. ``lv.BayesianClassifier`` has the same choices as its method
# ``acquire``.

CHOICES = {
    "random": lambda p, random: random.permutation(p.shape[1])[:BATCH],
    "BALD": lambda p, random: bald(p, BATCH),
    "BatchBALD": lambda p, random: batchbald(p, BATCH, configurations=200).rows,
}
accuracy = {name: np.zeros((SEEDS, ROUNDS + 1)) for name in CHOICES}
different, first_batch = {name: [] for name in CHOICES}, {}
for seed in range(SEEDS):
    for name, choose in CHOICES.items():
        x, y, x_new, y_new, random = problem(seed)
        known = random.permutation(len(x))[:FIRST]
        for i, key in enumerate(jax.random.split(lv.key(seed), ROUNDS + 1)):
            draws = posterior(key, x[known], y[known])
            accuracy[name][seed, i] = np.mean(np.asarray(proba(draws, x_new)).mean(0).argmax(1) == y_new)
            if i < ROUNDS:
                rest = np.setdiff1d(np.arange(len(x)), known)
                new = rest[choose(np.asarray(proba(draws, x))[:, rest], random)]
                different[name].append(len(set(new // COPIES)))
                first_batch.setdefault(name, x[new])
                known = np.concatenate([known, new])

for name in CHOICES:
    shown = " ".join(f"{a:.2f}" for a in accuracy[name].mean(0))
    print(f"{name:10s} accuracy {shown}, {np.mean(different[name]):.1f} different images in a batch of {BATCH}")

# %%
# The picture
# -----------
# Test accuracy as labels are added, the mean of three pools, and the first batch of each choice.

COLORS = {"random": "0.45", "BALD": "#D55E00", "BatchBALD": "#0072B2"}
figure, axes = plt.subplots(1, 2, figsize=(8.2, 3.4), width_ratios=(1.2, 1), layout="constrained")
counts = FIRST + BATCH * np.arange(ROUNDS + 1)
for name, values in accuracy.items():
    axes[0].plot(counts, values.T, color=COLORS[name], alpha=0.25, linewidth=0.8)
    axes[0].plot(counts, values.mean(0), "o-", color=COLORS[name], markersize=4, label=name)
axes[0].set(xlabel="labeled images", ylabel="test accuracy")
axes[0].legend(fontsize="small", frameon=False)
for row, name in enumerate(CHOICES):
    strip = np.concatenate([np.pad(u.reshape(8, 8), 1) for u in first_batch[name]], axis=1)
    axes[1].imshow(strip, cmap="gray_r", extent=(0, BATCH, -1.3 * row - 1, -1.3 * row), vmin=0, vmax=1)
    axes[1].text(0, -1.3 * row + 0.05, name, color=COLORS[name], fontsize="small")
axes[1].set(xlim=(0, BATCH), ylim=(-3.7, 0.35), title="the first batch")
axes[1].axis("off")
plt.show()

# %%
# What holds
# ----------
# BALD's batches hold about three images, each several times, and it learns more slowly than a random choice. The
# images of a BatchBALD batch are nearly all different, and it learns fastest: after the last batch its accuracy is
# the best in every pool.

last = {name: values[:, -1] for name, values in accuracy.items()}
assert np.mean(different["BALD"]) < 5
assert np.mean(different["BatchBALD"]) > 7
assert (last["BatchBALD"] > np.maximum(last["random"], last["BALD"])).all()
assert last["BatchBALD"].mean() > last["BALD"].mean() + 0.05
