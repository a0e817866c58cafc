"""
Do the chains find all modes, and with the right mass?
======================================================

Four well-separated modes hold 40, 30, 20 and 10 % of a distribution. All chains start in the smallest mode. This
example compares MALA, cyclical step sizes, and replica exchange: which modes they visit, and what mass they give to
each.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import langevin as lv

# %%
# The target
# ----------
# ``densities_2d`` has fourteen densities of the plane with exact draws. The centers of this one are at (±1.5, ±1.5),
# so that the quadrant of a draw tells its mode.

target = lv.targets.densities_2d()["unequal"]
shares = np.array([0.4, 0.3, 0.2, 0.1])
smallest = jnp.array([1.5, -1.5])


def quadrant(x):
    """The mode of each draw: 0 to 3, the largest share first."""
    right, up = x[..., 0] > 0, x[..., 1] > 0
    return np.where(up, np.where(right, 0, 1), np.where(right, 3, 2))


# %%
# Four ways to move
# -----------------
# ``Cyclical`` lets the step size fall from its peak to zero in cycles of 500 steps: at the peak a step can reach
# another mode, at the end small steps sample it. ``exploration`` is the share of a cycle without noise and without
# draws. ``ReplicaExchange`` runs copies of the kernel at rising temperatures that swap positions; only the coldest is
# collected, the draws of the others have weight 0.

kernels = {
    "MALA": lv.MALA(0.01),
    "cyclical SGLD": lv.Cyclical(lv.SGLD(0.035), period=500, exploration=0.0),
    "cyclical MALA": lv.Cyclical(lv.MALA(1.0), period=500, exploration=0.0),
    "replica exchange of MALA": lv.ReplicaExchange(lv.MALA(0.01), temperatures=(1, 3, 10, 30), every=5, stretch=0.5),
}
mass, shown = {}, {}
for name, kernel in kernels.items():
    start = jnp.broadcast_to(smallest, (64 * kernel.group, 2))
    posterior = lv.sample(lv.key(0), kernel, target, start, draws=2000, warmup=500, thin=10)
    weights, mode = posterior.weights(), quadrant(posterior.draws)
    mass[name] = np.array([weights[mode == k].sum() for k in range(4)])
    shown[name] = np.asarray(posterior.draws)[weights > 0][::61]
    print(f"{name:25s}", "  ".join(f"{m:.3f}" for m in mass[name]), "  should be", shares)

# %%
# The picture
# -----------

centers = [(1.5, 1.5), (-1.5, 1.5), (-1.5, -1.5), (1.5, -1.5)]
figure, axes = plt.subplots(2, 2, figsize=(6.4, 6.6), sharex=True, sharey=True, layout="constrained")
for axis, (name, draws) in zip(axes.flat, shown.items(), strict=True):
    axis.plot(draws[:, 0], draws[:, 1], ".", color="#0072B2", markersize=2, alpha=0.4, rasterized=True)
    for (x, y), got, share in zip(centers, mass[name], shares, strict=True):
        axis.text(x, 2.2 * y, f"{got:.2f} (of {share})", ha="center", va="center")
    axis.set(title=name, xlim=(-3.6, 3.6), ylim=(-3.9, 3.9))
figure.supxlabel("x₁; numbers: mass of the mode by the draws (its share)", fontsize=10)
figure.supylabel("x₂", fontsize=10)
plt.show()

# %%
# What holds
# ----------
# MALA never leaves the mode where it began. Cyclical SGLD visits the others, but its mass of a mode depends on how the
# steps shrink, and is wrong. Each step of MALA leaves the target invariant whatever its size, so that cyclical MALA
# has the right mass here, where a large step can reach another mode; in many dimensions it would be rejected. Replica
# exchange has the right mass and needs no such step.

error = {name: np.abs(found - shares).max() for name, found in mass.items()}
assert error["replica exchange of MALA"] < 0.02
assert error["cyclical MALA"] < 0.03
assert error["cyclical SGLD"] > 0.1
assert mass["MALA"][3] > 0.99
