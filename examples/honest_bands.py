"""
Are the bands honest where there are no data?
=============================================

A network trained once gives one curve. It says nothing about the places where it has seen no data. This example fits a
function of one variable whose data have a gap, and asks how often fresh targets fall into the 90 % intervals: of a
single trained network, of an ensemble of trained networks, and of the posterior.
"""

from functools import partial

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import langevin as lv
from langevin.diagnostics.calibration import coverage, intervals

# %%
# The data
# --------
# Sixty targets of sin(3x) with noise of standard deviation 0.1. There is none between −0.5 and 0.5.

rng = np.random.default_rng(0)
x = np.concatenate([rng.uniform(-1.5, -0.5, 30), rng.uniform(0.5, 1.5, 30)])[:, None].astype("float32")
y = (np.sin(3 * x[:, 0]) + 0.1 * rng.normal(size=60)).astype("float32")

x_new = rng.uniform(-1.5, 1.5, 1000)[:, None].astype("float32")
y_new = np.sin(3 * x_new[:, 0]) + 0.1 * rng.normal(size=1000)
in_gap = np.abs(x_new[:, 0]) < 0.5

# %%
# The model
# ---------
# ``lv.bnn`` makes a target of a network, a prior and a Gaussian likelihood. ``prior`` gives the standard deviation of
# the weights by the path of the parameter. The first layer gets the widest prior, which decides how fast functions
# vary.

build = partial(lv.MLP, (1, 16, 16, 1), activation=jnp.tanh)
model = lv.bnn(build, (x, y), noise=0.1, prior={"layers.0.*": 2.0, "*weight": 0.5, "*": 1.0})

# %%
# ``lv.warm_start`` trains eight networks from initializations of their own. They are a deep ensemble, and the starts
# of the chains. ``tune="auto"`` finds the step size, the metric and the length of MCLMC.

k_start, k_train, k_run = jax.random.split(lv.key(0), 3)
trained = lv.warm_start(k_train, model.target, model.starts(k_start, chains=8), steps=1500)
posterior = lv.sample(k_run, lv.MCLMC(), model.target, trained, draws=200, warmup=50, thin=10, tune="auto")
print(posterior)

# %%
# Predictions
# -----------
# Each method is a set of predictive means, (draw, example). The noise is known, so that the only difference is how far
# the means lie apart.


def predict(at):
    """Means of the posterior, the ensemble and a single network."""
    draws = posterior.predict(model.predict, at)["mean"].reshape(-1, len(at))
    ensemble = np.asarray(jax.vmap(lambda position: model.predict(position, at)["mean"])(trained))
    return {"one network": ensemble[:1], "ensemble of 8": ensemble, "posterior": draws}


among, between = {}, {}
for name, means in predict(x_new).items():
    low, high = intervals(means, 0.1, 0.9)
    among[name] = coverage(y_new[~in_gap], low[0, ~in_gap], high[0, ~in_gap])
    between[name] = coverage(y_new[in_gap], low[0, in_gap], high[0, in_gap])
    print(f"{name:14s} coverage of 90 % intervals: {among[name]:.2f} among data, {between[name]:.2f} in the gap")

# %%
# The picture
# -----------
# The band of the single network has the same width everywhere. The band of the posterior widens in the gap.

line = np.linspace(-2, 2, 200, dtype="float32")[:, None]
figure, axes = plt.subplots(1, 3, figsize=(8.2, 3.3), sharey=True, layout="constrained")
for axis, (name, means) in zip(axes, predict(line).items(), strict=True):
    low, high = intervals(means, 0.1, 0.9)
    axis.fill_between(line[:, 0], low[0], high[0], color="#0072B2", alpha=0.25, linewidth=0, label="90 % interval")
    axis.plot(line[:, 0], means.mean(0), color="#0072B2", label="mean")
    axis.plot(line[:, 0], np.sin(3 * line[:, 0]), "--", color="0.3", linewidth=1, label="truth")
    axis.plot(x[:, 0], y, ".", color="#D55E00", markersize=4, label="data")
    axis.set(title=f"{name}\ncoverage {among[name]:.2f}, gap {between[name]:.2f}", xlabel="x", ylim=(-2.5, 2.5))
axes[0].set_ylabel("y")
axes[0].legend(loc="upper left", fontsize="small", frameon=False, ncols=2)
plt.show()

# %%
# What holds
# ----------
# The single network does not cover the gap. The ensemble and the posterior do. Among the data the posterior has the
# coverage it promises. Beyond ±1.5, where no new target was drawn, all three extrapolate with too little doubt: how
# fast bands widen outside the data is decided by prior and activation.

assert 0.86 <= among["posterior"] <= 0.94
assert between["posterior"] >= 0.9
assert between["one network"] < 0.5
