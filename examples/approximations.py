"""
What does an approximation leave out?
=====================================

A network of one input is fitted to data with a gap. HMC samples its posterior; five approximations are fitted from the
same trained networks. All have the same mean. How wide their bands are where there are no data is decided by what each
leaves out.
"""

from functools import partial

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import langevin as lv
from langevin import vi

# %%
# The network
# -----------
# 16 hidden units, N(0, 1) priors, known noise, and eight networks trained from different starts.

NOISE = 0.1
random = np.random.default_rng(0)
x = np.concatenate([random.uniform(-2, -0.7, 40), random.uniform(0.9, 2, 40)])[:, None].astype("float32")
y = (np.sin(3 * x[:, 0]) + NOISE * random.normal(size=80)).astype("float32")
grid = np.linspace(-2.5, 2.5, 101, dtype="float32")[:, None]

model = lv.bnn(partial(lv.MLP, (1, 16, 1), activation=jnp.tanh), (x, y), noise=NOISE)
trained = lv.warm_start(lv.key(0), model.target, model.starts(lv.key(1), 8), steps=10_000)

# %%
# The fits
# --------
# Every fit is a posterior with draws. A Laplace approximation is of the linearized network.


def fitted(tune, **how):
    return lv.sample(lv.key(2), vi.Independent(**how), model.target, trained, draws=100, tune=tune)


hmc = lv.HMC(0.01, n_leapfrog=100)
elbo = vi.ELBO(draws=4, estimator="stl")
posteriors = {
    "HMC": lv.sample(lv.key(3), hmc, model.target, trained, draws=1000, warmup=200, tune="auto"),
    "ensemble": fitted(vi.Ensemble()),
    "mean-field": fitted(vi.Fit(elbo, steps=4000), family=vi.MeanField()),
    "full-rank": fitted(vi.Fit(elbo, steps=4000), family=vi.FullRank()),
    "SWAG": fitted(vi.SWAG(rate=3e-3, optimizer="adam", batch=20)),
    "Laplace": vi.linearized(fitted(vi.Laplace("full"), linearized=True)),
}

gap, near = (np.abs(grid[:, 0]) < 0.6), (np.abs(np.abs(grid[:, 0]) - 1.4) < 0.4)
bands = {}
for name, posterior in posteriors.items():
    f = np.asarray(posterior.predict(model.predict, grid)["mean"])  # (network, draw, x)
    bands[name] = f.mean((0, 1)), f.std((0, 1))
    if name == "HMC":
        rhat = float(lv.diagnostics.rhat(f[:, :, 50]))  # in the middle of the gap
wide = {name: (sd[gap].mean(), sd[near].mean()) for name, (_, sd) in bands.items()}
for name, (in_gap, near_data) in wide.items():
    print(f"{name:10s} standard deviation in the gap {in_gap:.2f}, near data {near_data:.3f}")
print(f"R-hat of HMC in the gap: {rhat:.3f}")

# %%
# The picture
# -----------
# Mean and two standard deviations of the function, without noise.

figure, axes = plt.subplots(2, 3, figsize=(9, 5), sharex=True, sharey=True, layout="constrained")
for axis, (name, (mean, sd)) in zip(axes.flat, bands.items(), strict=True):
    axis.fill_between(grid[:, 0], mean - 2 * sd, mean + 2 * sd, color="#0072B2", alpha=0.25, linewidth=0)
    axis.plot(grid[:, 0], mean, color="#0072B2", linewidth=1.5)
    axis.plot(x[:, 0], y, ".", color="0.2", markersize=3)
    axis.set(title=name, ylim=(-2, 2))
    axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# What holds
# ----------
# The mean-field Gaussian leaves out all correlations of weights. To lose little likelihood its weights must be nearly
# fixed, and in the gap its band has less than half of HMC's width. Near data, where correlated errors would cancel, the
# band is twice as wide. The full-rank Gaussian has the correlations, but surrounds one mode of a posterior that is not
# Gaussian. The iterates of SWAG and the networks of the ensemble say little here, since eight starts give nearly the
# same function. The Laplace approximation of the linearized network is nearest to HMC in the gap and near data, and
# wider than HMC beyond the data.

exact_gap, exact_near = wide["HMC"]
assert rhat < 1.05
assert all(wide[name][0] < 0.6 * exact_gap for name in ("mean-field", "full-rank", "SWAG", "ensemble"))
assert wide["mean-field"][1] > 1.8 * exact_near > 1.2 * wide["SWAG"][1]
assert abs(wide["Laplace"][0] / exact_gap - 1) < 0.25
assert abs(wide["Laplace"][1] / exact_near - 1) < 0.25
