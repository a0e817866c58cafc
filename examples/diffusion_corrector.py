"""
Does a Metropolis corrector help a diffusion model with few steps?
==================================================================

A diffusion model draws by many small steps from noise to data. With few steps the draws are off. A corrector moves each
draw by a few steps of MCMC at every noise level. If the score is the gradient of an energy, the corrector can have a
Metropolis test, and then it leaves the distribution of that level exactly invariant. This example trains such an energy
on eight Gaussians of the plane and compares samplers with the same number of predictor steps.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import langevin as lv

# %%
# Training
# --------
# Denoising score matching of a network with one output, the energy; the score is its gradient.

data = lv.targets.densities_2d()["eight"]
process = lv.diffusion.VP()
weights, program = eqx.partition(lv.diffusion.TimeMLP(2, 1, lv.key(0), hidden=(64, 64)), eqx.is_inexact_array)
loss = lv.diffusion.DSM(process, program, parameterisation="energy")
target = lv.targets.Loss(loss, data.exact(lv.key(1), 20_000), batch=256)
trained = lv.nets.train(lv.key(2), target, jax.tree.map(lambda u: u[None], weights), steps=1500, rate=2e-3)
score = loss.denoiser(trained.of(0))

# %%
# Samplers
# --------
samplers = {
    "predictor alone": lv.diffusion.EulerMaruyama(50, "quadratic"),
    "with SGLD": lv.diffusion.PredictorCorrector(50, "quadratic", corrector=lv.SGLD(0.6), inner=4),
    "with MALA": lv.diffusion.PredictorCorrector(50, "quadratic", corrector=lv.MALA(0.6), inner=4),
}
import time
for name, sampler in samplers.items():
    t=time.time()
    x = lv.diffusion.generate(lv.key(3), sampler, process, score, (2,), n=4000)
    print(name, lv.diagnostics.sample_kl(x, data.log_density, 5.0, cells=40), float(jnp.mean(jax.vmap(data.log_density)(x))), time.time()-t)
