"""
Can the posterior follow data while they arrive?
================================================

Measurements come in while the sampler runs. There is no need to start anew: a callback, called between chunks of
draws, may give the run another target. This example adds rows to a regression four times during one run, streams the
draws to disk, and compares every stage with the exact posterior of the rows that had arrived.
"""

import tempfile

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import langevin as lv

# %%
# A target with room
# ------------------
# Arrays of a target are data of the compiled program: new values compile nothing, a new shape does. So there is room
# for all 800 rows from the beginning, and the third array says which rows have arrived.

rng = np.random.default_rng(0)
x = np.column_stack([np.ones(800), rng.normal(size=(800, 2))]).astype("float32")
y = (x @ np.array([1.0, -0.5, 0.25]) + 0.5 * rng.normal(size=800)).astype("float32")


def log_prior(position):
    return -0.5 * jnp.sum(position**2)


def log_likelihood(position, data):
    x, y, arrived = data
    return -0.5 * arrived * ((y - x @ position) / 0.5) ** 2


def with_rows(n):
    """The data when n rows have arrived."""
    return jnp.asarray(x), jnp.asarray(y), jnp.asarray(np.arange(800) < n, jnp.float32)


# %%
# One run
# -------
# A callback gets a ``Progress`` and gives it back, changed or not. This one asks how many rows there are when the next
# chunk begins. The kernel has no Metropolis test, which would compare values of the old target with those of the new
# one.

STAGES, CHUNK = (0, 10, 50, 200, 800), 600


def arrive(progress):
    """The target of the next chunk."""
    stage = min(progress.done // CHUNK, len(STAGES) - 1)
    return progress._replace(target=lv.replace(progress.target, data=with_rows(STAGES[stage])))


target = lv.Bayes(log_prior, log_likelihood, with_rows(0))
kernel = lv.Underdamped(0.02, friction=2.0)
start = np.zeros((8, 3), "float32")
how = dict(draws=CHUNK * len(STAGES), thin=20, chunk=CHUNK, callbacks=(arrive,), store=tempfile.mkdtemp())
posterior = lv.sample(lv.key(0), kernel, target, start, **how)
draws = posterior.draws.load().reshape(8, len(STAGES), CHUNK, 3)[:, :, CHUNK // 4 :]  # a quarter to settle

# %%
# The exact posterior
# -------------------
# A Gaussian likelihood with a Gaussian prior: precision and mean after n rows have a closed form.

mean, std, off_mean, off_std = [], [], [], []
for stage, n in enumerate(STAGES):
    precision = np.eye(3) + x[:n].T.astype(float) @ x[:n] / 0.25
    mean.append(np.linalg.solve(precision, x[:n].T.astype(float) @ y[:n] / 0.25))
    std.append(np.sqrt(np.diag(np.linalg.inv(precision))))
    here = draws[:, stage].reshape(-1, 3)
    off_mean.append(np.max(np.abs(here.mean(0) - mean[-1]) / std[-1]))
    off_std.append(np.max(np.abs(here.std(0) / std[-1] - 1)))
    print(f"{n:3d} rows: deviation of w₁ {here.std(0)[1]:.3f} (exact {std[-1][1]:.3f})", end=", ")
    print(f"means off by at most {off_mean[-1]:.3f} deviations, deviations by {100 * off_std[-1]:.1f} %")

# %%
# The picture
# -----------
# Left: one weight of three chains during the run, and the exact mean ± 2 deviations of each stage. Right: its
# deviation.

figure, (axis, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained", width_ratios=(2, 1))
trace = posterior.draws.load()[:, ::5, 1]
place = 5 * np.arange(trace.shape[1])
for chain, color in enumerate(("#0072B2", "#56B4E9", "#009E73")):
    axis.plot(place, trace[chain], color=color, linewidth=0.6)
for stage, n in enumerate(STAGES):
    low, high = (mean[stage][1] + sign * 2 * std[stage][1] for sign in (-1, 1))
    axis.hlines([low, high], CHUNK * stage, CHUNK * (stage + 1), color="#D55E00", linewidth=1.6, zorder=3)
    axis.text(CHUNK * (stage + 0.5), 2.7, f"{n}\nrows", ha="center", va="center", fontsize=9)
axis.plot([], [], color="#D55E00", label="exact mean ± 2 deviations")
axis.plot([], [], color="#0072B2", label="chains")
axis.set(xlabel="draw", ylabel="w₁", ylim=(-3.3, 3.3))
axis.legend(fontsize="small", frameon=False, loc="lower right")
found = [draws[:, stage, :, 1].std() for stage in range(len(STAGES))]
names = [str(n) for n in STAGES]
right.plot(names, [s[1] for s in std], "_", color="#D55E00", markersize=18, markeredgewidth=2, label="exact")
right.plot(names, found, "o", color="#0072B2", label="draws")
right.set(yscale="log", xlabel="rows that have arrived", ylabel="deviation of w₁")
right.legend(fontsize="small", frameon=False)
plt.show()

# %%
# What holds
# ----------
# At every stage the draws have the mean and the deviation of the exact posterior, from the prior to 800 rows.

assert max(off_mean) < 0.15
assert max(off_std) < 0.08
assert std[-1][1] < 0.05 < std[0][1]
