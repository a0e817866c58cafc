"""
How wide should the network be? Ask the evidence
================================================

The evidence Z = p(data) is the probability that a model, averaged over its prior, gives the data. It falls where a network
is too small to fit, and where it is so flexible that it spreads its probability over data that did not come. This example
computes log Z of networks of several widths from the training data alone and compares it with the held-out density.
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
x_new = rng.uniform(-1, 1, 500)[:, None].astype("float32")
y_new = (truth(x_new) + 0.1 * rng.normal(size=500)).astype("float32")


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
# Annealing from the prior
# ------------------------
# ``lv.log_evidence`` with AIS anneals 256 particles from the prior to the posterior by Hamiltonian moves. The base is the
# prior: the target knows its scales.

widths = (0, 1, 2, 8, 32)
evidence, held_out = {}, {}
for width in widths:
    model = network(width)
    zero = jax.tree.map(jnp.zeros_like, model.position)
    prior = lv.evidence.Normal(zero, model.target.log_prior.scale)
    t = __import__("time").time()
    evidence[width] = lv.log_evidence(lv.key(width), model.target, prior, lv.evidence.SMC(particles=1024))
    print(width, evidence[width], exact, __import__("time").time() - t)
