"""
What is lost when a run is killed?
==================================

Long runs end early: a queue's time limit, a full disk, a reboot. With ``store=`` the draws and the state of a run go
to disk after every chunk. This example kills a run with SIGKILL, which no program can catch, starts the same command
again, and compares the draws with those of a run that was never stopped.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

# %%
# The program
# -----------
# A Bayesian regression sampled on mini-batches, in twenty chunks of twenty draws. After every chunk it prints how many
# draws there are. The program is the same for all three runs; only the folder differs.

PROGRAM = """
import sys, time
import jax.numpy as jnp, numpy as np
import langevin as lv

def log_prior(position):
    return -0.5 * jnp.sum(position["w"] ** 2)

def log_likelihood(position, data):
    x, y = data
    return -0.5 * (y - x @ position["w"]) ** 2

def say(progress):
    print(progress.done, flush=True)
    time.sleep(0.1)  # as if a chunk took longer
    return progress

x = np.random.default_rng(0).normal(size=(500, 3)).astype("float32")
target = lv.Bayes(log_prior, log_likelihood, (x, x @ np.array([1, -2, 0.5], "float32")), batch=20, order="epoch")
start = {"w": np.zeros((4, 3), "float32")}
how = dict(draws=400, thin=5, chunk=20, callbacks=(say,), store=sys.argv[1])
posterior = lv.sample(lv.key(0), lv.SGHMC(0.01, friction=5.0), target, start, **how)
np.save(sys.argv[1] + ".npy", posterior.draws.load()["w"])
"""
place = Path(tempfile.mkdtemp())


def go(folder, kill_after=None):
    """The program in a process of its own, killed after so many chunks: (seconds, draws) as it went."""
    began, seen = time.perf_counter(), []
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, place / folder], stdout=subprocess.PIPE, text=True
    ) as process:
        for line in process.stdout:
            seen.append((time.perf_counter() - began, int(line)))
            if len(seen) == kill_after:
                process.kill()  # SIGKILL
                break
    print(f"{folder}: exit code {process.returncode}, draws {seen[0][1]} to {seen[-1][1]}")
    return np.array(seen), process.returncode


# %%
# Three runs
# ----------
# One is killed after its ninth chunk. The same command with the same folder goes on from what is on disk.

first, killed = go("interrupted", kill_after=9)
second, finished = go("interrupted")
whole, _ = go("never stopped")
resumed, uninterrupted = (np.load(place / f"{folder}.npy") for folder in ("interrupted", "never stopped"))
print("draws", resumed.shape, "identical to the last bit:", resumed.tobytes() == uninterrupted.tobytes())

# %%
# The picture
# -----------
# Above, how many draws each process had; below, one weight of one chain in the run that was resumed and in the run
# that was never stopped.

figure, axes = plt.subplots(2, 1, figsize=(7, 4.6), layout="constrained")
gap = first[-1, 0]
axes[0].step(first[:, 0], first[:, 1], where="post", color="#0072B2", label="first process")
axes[0].plot(*first[-1], "x", color="#D55E00", markersize=9, markeredgewidth=2, label="SIGKILL")
axes[0].step(gap + second[:, 0], second[:, 1], where="post", color="#009E73", label="second process")
axes[0].set(xlabel="seconds", ylabel="draws of each chain", xlim=(0, None), ylim=(0, 420))
axes[0].legend(fontsize="small", frameon=False, loc="upper left")
axes[1].plot(uninterrupted[0, :, 0], color="0.6", linewidth=3, label="never stopped")
axes[1].plot(resumed[0, :, 0], color="#0072B2", linewidth=1, label="killed and resumed")
axes[1].axvline(second[0, 1] - 20, color="#D55E00", linewidth=1)
axes[1].set(xlabel="draw", ylabel="w₁ of chain 0")
axes[1].legend(fontsize="small", frameon=False, loc="lower right", ncols=2)
plt.show()

# %%
# What holds
# ----------
# The killed process ended by signal 9 in the middle. The second did not begin anew, lost at most the chunk that was
# being written, and the draws are those of the uninterrupted run to the last bit.

assert killed == -9
assert finished == 0
assert first[-1, 1] < 400
assert first[-1, 1] - 20 <= second[0, 1] - 20 <= first[-1, 1]
assert resumed.shape == (4, 400, 3)
assert resumed.tobytes() == uninterrupted.tobytes()
assert len(np.unique(resumed[0, :, 0])) > 390
