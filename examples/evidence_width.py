"""
How wide should the network be? Ask the evidence
================================================

The evidence Z = p(data) is the probability that a model, averaged over its prior, gives the data. It falls where a
network is too small to fit, and where it is so flexible that it spreads its probability over data that did not come.
This example computes log Z of networks of several widths from thirty training examples alone: nothing is held out.
"""

from functools import partial

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import langevin as lv

# %%
# The data
# --------
# Thirty noisy targets of a function that a linear model cannot fit.

rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, 30)[:, None].astype("float32")
truth = lambda x: np.tanh(4 * x[:, 0]) - x[:, 0]
y = (truth(x) + 0.1 * rng.normal(size=30)).astype("float32")


def network(width):
    """Prior, likelihood and data of a network 1-width-1, or of a linear model (width 0)."""
    sizes = (1, width, 1) if width else (1, 1)
    prior = {"layers.0.*": 2.0, "*": 1.0} if width else 1.0
    return lv.bnn(partial(lv.MLP, sizes, activation=jnp.tanh), (x, y), noise=0.1, prior=prior)


# %%
# log Z of a linear model is known
# --------------------------------
# Its targets are Gaussian with covariance 0.01 I + x xᵀ + 1, so that the method can be checked.

covariance = 0.1**2 * np.eye(30) + x.astype(float) @ x.T + 1
exact = -0.5 * (y @ np.linalg.solve(covariance, y) + np.linalg.slogdet(covariance)[1] + 30 * np.log(2 * np.pi))

# %%
# Sequential Monte Carlo
# ----------------------
# ``lv.log_evidence`` moves 512 particles from the prior to the posterior through rising temperatures. The base is the
# prior of the target, whose scales it knows.

evidence = {}
for width in (0, 2, 8, 32):
    model = network(width)
    prior = lv.evidence.Normal(jax.tree.map(jnp.zeros_like, model.position), model.target.log_prior.scale)
    evidence[width] = lv.log_evidence(lv.key(1), model.target, prior, lv.evidence.SMC(particles=512, islands=8))
    print(f"width {width:2d}: log Z = {evidence[width].log_z:7.2f} ± {evidence[width].stderr:.2f}")
print(f"width  0, exact:  {exact:7.2f}")

# %%
# The picture
# -----------
# Left: the data. Right: log Z of the networks; the linear model is far below.

figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.3), layout="constrained")
line = np.linspace(-1, 1, 200)[:, None]
axes[0].plot(line[:, 0], truth(line), color="0.6", label="truth")
axes[0].plot(x[:, 0], y, ".", color="#D55E00", label="data")
axes[0].set(xlabel="x", ylabel="y")
axes[0].legend(fontsize="small", frameon=False)
widths = [width for width in evidence if width]
log_z, stderr = ([float(getattr(evidence[w], name)) for w in widths] for name in ("log_z", "stderr"))
axes[1].errorbar(widths, log_z, yerr=2 * np.array(stderr), fmt="o-", color="#0072B2", capsize=4)
axes[1].set(
    xscale="log", xticks=widths, xticklabels=widths, xlabel="hidden units", ylabel="log Z (± 2 standard errors)"
)
axes[1].minorticks_off()
axes[1].set_title(f"linear model: {float(evidence[0].log_z):.1f} (exact {exact:.1f})", fontsize=10)
plt.show()

# %%
# What holds
# ----------
# The estimate for the linear model agrees with the exact value. Eight hidden units have the largest evidence of these
# widths. With the same prior for every weight, a network of 32 units has functions of larger variance, and gives these
# data less probability; a prior scaled by the width would lessen that.

assert abs(evidence[0].log_z - exact) < 0.6
assert evidence[8].log_z > evidence[2].log_z + 1
assert evidence[8].log_z > evidence[32].log_z + 0.5
assert evidence[2].log_z > evidence[0].log_z + 50
