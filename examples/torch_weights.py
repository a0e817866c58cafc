"""
Can I start from the weights of a PyTorch network?
==================================================

A network trained in PyTorch is saved as a safetensors file. This example reads the file, checks that the network gives
the same outputs, and samples the posterior from those weights. PyTorch is not needed to read the file. Where PyTorch
is installed the example trains the network there; elsewhere NumPy writes a file of the same layout.
"""

import importlib.util
import tempfile
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import scale

import langevin as lv
from langevin.diagnostics.calibration import coverage, intervals, nll_gaussian

# %%
# The data
# --------
# 442 patients, ten columns, one number to predict; a fifth of the rows is held out.

X, y = load_diabetes(return_X_y=True)
X, y = scale(X).astype("float32"), scale(y).astype("float32")
order = np.random.default_rng(0).permutation(442)
X, y, X_new, y_new = X[order[:354]], y[order[:354]], X[order[354:]], y[order[354:]]
file = Path(tempfile.mkdtemp()) / "net.safetensors"

# %%
# Train, and save
# ---------------
# PyTorch keeps the weights of a linear layer as (out, in).

if importlib.util.find_spec("torch"):
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(10, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(net.parameters(), 1e-2, weight_decay=1e-3)
    for _ in range(200):
        optimizer.zero_grad()
        loss = ((net(torch.tensor(X))[:, 0] - torch.tensor(y)) ** 2).mean()
        loss.backward()
        optimizer.step()
    theirs = net(torch.tensor(X_new))[:, 0].detach().numpy()
    save_file(net.state_dict(), file)
else:
    from safetensors.numpy import save_file

    net = MLPRegressor(hidden_layer_sizes=(16,), learning_rate_init=1e-2, early_stopping=True, random_state=0).fit(X, y)
    theirs = net.predict(X_new)
    names = {f"{2 * i}.weight": w.T.copy() for i, w in enumerate(net.coefs_)}
    names |= {f"{2 * i}.bias": b for i, b in enumerate(net.intercepts_)}
    save_file({name: value.astype("float32") for name, value in names.items()}, file)

# %%
# Read
# ----
# ``lv.from_torch`` puts the tensors into a network of this library of the same shape.

ours = lv.from_torch(file, lv.MLP((10, 16, 1), jax.random.key(0)))
difference = np.abs(np.asarray(jax.vmap(ours)(X_new))[:, 0] - theirs).max()
print(f"largest difference of an output: {difference:.1e}")

# %%
# Sample
# ------
# All chains start near the trained weights. The noise of the targets is learned.

model = lv.bnn(ours, (X, y), prior=0.5)
k_start, k_run = jax.random.split(lv.key(0))
start = model.starts(k_start, chains=4)
posterior = lv.sample(k_run, lv.HMC(n_leapfrog=20), model.target, start, draws=200, tune="auto")
said = posterior.predict(model.predict, X_new)
mean, std = (said[name].reshape(-1, len(X_new)) for name in ("mean", "std"))
print(posterior)

# %%
# The trained network alone, with the deviation of its residuals on the training rows as noise, against the posterior.

residual = np.std(y - np.asarray(jax.vmap(ours)(X))[:, 0])
nll = {"trained network": nll_gaussian(y_new, theirs[None], residual), "posterior": nll_gaussian(y_new, mean, std)}
low, high = intervals(mean, std, 0.9)
covered = coverage(y_new, low[0], high[0])
print(nll, f"coverage of 90 % intervals {covered:.2f}")

# %%
# The picture
# -----------

figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.4), layout="constrained")
axes[0].plot(theirs, np.asarray(jax.vmap(ours)(X_new))[:, 0], ".", color="#0072B2")
axes[0].axline((0, 0), slope=1, color="0.6", linewidth=1, zorder=0)
axes[0].set(title="the same network", xlabel="output before saving", ylabel="output after reading")
rank = np.argsort(mean.mean(0))
axes[1].vlines(np.arange(len(rank)), low[0][rank], high[0][rank], color="#0072B2", alpha=0.4, label="90 % interval")
axes[1].plot(y_new[rank], ".", color="#D55E00", markersize=4, label="target")
axes[1].set(title=f"posterior: coverage {covered:.2f}", xlabel="held-out rows, by their mean", ylabel="target (scaled)")
axes[1].legend(fontsize="small", frameon=False, loc="upper left")
plt.show()

# %%
# What holds
# ----------
# Reading changes no output by more than rounding. The posterior gives held-out targets a higher density than the
# trained network does, and its intervals cover what they promise, within the three standard deviations of 88 rows.

assert difference < 1e-5
assert nll["posterior"] < nll["trained network"]
assert abs(covered - 0.9) < 3 * np.sqrt(0.9 * 0.1 / len(y_new))
