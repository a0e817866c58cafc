"""
Can I sample my NumPyro model here?
===================================

A NumPyro model with positive and bounded parameters becomes a target by ``lv.from_numpyro``. Kernels move on its
unconstrained space, and draws are mapped back to the constrained one. This example compares the draws with those of
NumPyro's own NUTS, on a hierarchical model of eight schools.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC
from numpyro.infer import NUTS as NumpyroNUTS

import langevin as lv

# %%
# The model
# ---------
# Rubin's (1981) eight schools, non-centered. The deviation τ between schools is positive, and the share ρ of the
# variance between schools is a deterministic site.

effect = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
error = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def schools(error, effect):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", 8):
        z = numpyro.sample("z", dist.Normal(0, 1))
        numpyro.sample("effect", dist.Normal(mu + tau * z, error), obs=effect)
    numpyro.deterministic("rho", tau**2 / (tau**2 + jnp.mean(error**2)))


# %%
# As a target
# -----------
# ``from_numpyro`` gives the target, a first position, and the map from positions to sites.

target, position, constrain = lv.from_numpyro(lv.key(0), schools, error, effect)
k_start, k_run = jax.random.split(lv.key(1))
start = {name: jnp.broadcast_to(u, (4, *u.shape)) for name, u in position.items()}
start["mu"] = start["mu"] + jax.random.normal(k_start, (4,))
posterior = lv.sample(k_run, lv.NUTS(), target, start, draws=1000, tune="auto")
ours = {name: np.asarray(u) for name, u in posterior.map(constrain).items()}
print({name: u.shape for name, u in ours.items()})

# %%
# The same by NumPyro
# -------------------

how = dict(num_warmup=500, num_samples=1000, num_chains=4, chain_method="vectorized", progress_bar=False)
mcmc = MCMC(NumpyroNUTS(schools), **how)
mcmc.run(jax.random.key(0), error, effect)
theirs = {name: np.asarray(u) for name, u in mcmc.get_samples(group_by_chain=True).items()}

# %%
# Means, with their Monte Carlo errors
# ------------------------------------

z_score = {}
for site in ("mu", "tau", "rho", "z"):
    stderr = np.hypot(lv.diagnostics.mcse(ours[site]), lv.diagnostics.mcse(theirs[site]))
    z_score[site] = (ours[site].mean((0, 1)) - theirs[site].mean((0, 1))) / stderr
    print(
        f"{site:4s} mean {ours[site].mean():6.3f}, NumPyro {theirs[site].mean():6.3f}", "z", np.round(z_score[site], 1)
    )

# %%
# The picture
# -----------

figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.2), layout="constrained")
labels = {"mu": "mean effect μ", "tau": "deviation between schools τ"}
for axis, site, edges in ((axes[0], "mu", np.linspace(-8, 16, 33)), (axes[1], "tau", np.linspace(0, 20, 33))):
    mine, other = (np.histogram(found[site], edges, density=True)[0] for found in (ours, theirs))
    axis.stairs(mine, edges, fill=True, color="#0072B2", alpha=0.4, label="lv.NUTS")
    axis.stairs(other, edges, color="#D55E00", linewidth=1.5, label="NumPyro's NUTS")
    axis.set(xlabel=labels[site], ylabel="density")
axes[1].legend(fontsize="small", frameon=False)
plt.show()

# %%
# What holds
# ----------
# The means of all sites agree with NumPyro's within Monte Carlo error: eleven numbers, each within four standard
# errors. τ is positive in every draw, and the chains have mixed.

assert max(np.abs(z).max() for z in z_score.values()) < 4
assert ours["tau"].min() > 0
assert lv.diagnostics.rhat(ours["mu"]) < 1.02
