"""
Can I sample my NumPyro model here?
===================================

A NumPyro model with positive and bounded parameters becomes a target by ``lv.from_numpyro``. Kernels move on its
unconstrained space, and draws are mapped back to the constrained one. This example compares two kernels of this library
with NumPyro's own NUTS on a hierarchical model of eight schools.
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
k_start, k_nuts, k_mclmc = jax.random.split(lv.key(1), 3)
start = {name: jnp.broadcast_to(u, (4, *u.shape)) for name, u in position.items()}
start["mu"] = start["mu"] + jax.random.normal(k_start, (4,))
print({name: u.shape for name, u in position.items()})

posteriors = {
    "lv.NUTS": lv.sample(k_nuts, lv.NUTS(), target, start, draws=1000, tune="auto"),
    "lv.MCLMC": lv.sample(k_mclmc, lv.MCLMC(), target, start, draws=1000, thin=20, tune="auto"),
}
sites = {name: posterior.map(constrain) for name, posterior in posteriors.items()}

# %%
# The same by NumPyro
# -------------------

mcmc = MCMC(NumpyroNUTS(schools), num_warmup=500, num_samples=1000, num_chains=4, chain_method="vectorized", progress_bar=False)
mcmc.run(jax.random.key(0), error, effect)
sites["NumPyro's NUTS"] = mcmc.get_samples(group_by_chain=True)

# %%
# Means, with their Monte Carlo errors
# ------------------------------------

worst = {}
reference = {name: np.asarray(sites["NumPyro's NUTS"][name]) for name in ("mu", "tau", "rho", "z")}
for name in posteriors:
    z = []
    for site, theirs in reference.items():
        ours = np.asarray(sites[name][site])
        stderr = np.hypot(lv.diagnostics.mcse(ours), lv.diagnostics.mcse(theirs))
        z.append(np.max(np.abs(ours.mean((0, 1)) - theirs.mean((0, 1))) / stderr))
    worst[name] = max(z)
    tau = np.asarray(sites[name]["tau"])
    print(f"{name:9s} mean of tau {tau.mean():.2f} (NumPyro {reference['tau'].mean():.2f}), largest |z| {worst[name]:.1f}")

# %%
# The picture
# -----------

figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.2), layout="constrained")
styles = dict(zip(sites, (dict(color="#0072B2"), dict(color="#D55E00", ls="--"), dict(color="k", ls=":")), strict=True))
for axis, site, edges in ((axes[0], "mu", np.linspace(-8, 16, 41)), (axes[1], "tau", np.linspace(0, 20, 41))):
    for name, found in sites.items():
        count, _ = np.histogram(np.asarray(found[site]), edges, density=True)
        axis.stairs(count, edges, label=name, linewidth=1.4, **styles[name])
    axis.set(xlabel={"mu": "mean effect μ", "tau": "deviation between schools τ"}[site], ylabel="density")
axes[1].legend(fontsize="small", frameon=False)
plt.show()

# %%
# What holds
# ----------
# The means of all sites agree with NumPyro's within Monte Carlo error: twelve numbers, each within four standard errors.
# τ is positive in every draw.

assert max(worst.values()) < 4
assert all(np.all(np.asarray(found["tau"]) > 0) for found in sites.values())
