"""
Does a Metropolis corrector help a diffusion model with few steps?
==================================================================

A diffusion model draws by steps from noise to data, and with few steps the draws are off. A corrector moves each draw
by a few steps of MCMC at every noise level. Where the score is the gradient of an energy, the corrector can have a
Metropolis test, and then it leaves the distribution of that level exactly invariant. This example compares correctors
by the KL divergence of the draws from the data.
"""

import matplotlib.pyplot as plt
import numpy as np

import langevin as lv
from langevin.diffusion.exact import ring

# %%
# A score without error
# ---------------------
# The data are eight Gaussians on a circle. Their score at every noise level has a closed form, so that what is seen is
# the error of the sampler alone and not that of a network. A trained energy is used in the same way:
# ``lv.diffusion.DSM(process, net, parameterisation="energy").denoiser(weights)``.

process = lv.diffusion.VP()
score = ring(process, n=8, radius=2.0, std=0.2)


def data(x):
    """The log density of the data."""
    return score.log_density(x, 0.0)


# %%
# Samplers
# --------
# Ten predictor steps, alone and with four corrector steps at each level. The corrector's step size, 0.6 in units of
# the noise, is large: unadjusted Langevin dynamics with it is too wide. For a fair price there is the predictor alone
# with fifty steps, which evaluates the score as often as the corrected samplers do.

samplers = {
    "predictor, 10 steps": lv.diffusion.EulerMaruyama(10, "quadratic"),
    "10 steps and SGLD": lv.diffusion.PredictorCorrector(10, "quadratic", corrector=lv.SGLD(0.6), inner=4),
    "10 steps and MALA": lv.diffusion.PredictorCorrector(10, "quadratic", corrector=lv.MALA(0.6), inner=4),
    "predictor, 50 steps": lv.diffusion.EulerMaruyama(50, "quadratic"),
}
draws, kl = {}, {}
for name, sampler in samplers.items():
    draws[name] = np.asarray(lv.diffusion.generate(lv.key(0), sampler, process, score, (2,), n=8000))
    kl[name] = lv.diagnostics.sample_kl(draws[name], data, 5.0, cells=40)
    print(f"{name:20s} KL(draws ‖ data) {kl[name]:.4f} nats")

# %%
# The picture
# -----------

figure, axes = plt.subplots(2, 2, figsize=(6.4, 6.6), sharex=True, sharey=True, layout="constrained")
for axis, (name, x) in zip(axes.flat, draws.items(), strict=True):
    axis.plot(x[::4, 0], x[::4, 1], ".", color="#0072B2", markersize=2, alpha=0.4, rasterized=True)
    for mean in np.asarray(score.means):
        axis.add_patch(plt.Circle(mean, 0.4, fill=False, color="#D55E00", linewidth=1))
    axis.set(title=f"{name}\nKL {kl[name]:.4f}", xlim=(-3.2, 3.2), ylim=(-3.2, 3.2), aspect="equal")
figure.supxlabel("x₁; circles: two standard deviations of the data", fontsize=10)
figure.supylabel("x₂", fontsize=10)
plt.show()

# %%
# What holds
# ----------
# With ten predictor steps the draws are too wide. Four steps of MALA at each level mend most of it, and with the same
# step size SGLD mends less, for its own bias remains. At equal numbers of score evaluations the predictor alone with
# fifty steps comes close: where steps are cheap, more of them do nearly as well as a corrector.

assert kl["predictor, 10 steps"] > 0.03
assert kl["10 steps and MALA"] < 0.008
assert kl["10 steps and MALA"] < 0.6 * kl["10 steps and SGLD"]
assert kl["predictor, 50 steps"] < 0.01
