"""
Does my own sampler converge to the right distribution?
=======================================================

A wrong sampler often looks right: chains move, R-hat is 1, a histogram is a bell. ``lv.audit.audit_kernel`` runs a
sampler on targets whose distribution is known and judges it in one sentence. It needs nothing but two functions,
``init`` and ``step``. This example audits Langevin dynamics written by hand, with a factor √2 forgotten and with it in
place.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax.flatten_util import ravel_pytree

import langevin as lv
from langevin.core.types import Info, Law, State

# %%
# A sampler by hand
# -----------------
# θ' = θ + h ∇log p(θ) + √(2 h T) ξ. It has no base class. ``law`` says what it claims: bias of order h¹. The factor of
# the noise is √2 for the right sampler; the wrong one has 1.


class ByHand:
    """Unadjusted Langevin dynamics with a factor of the noise."""

    def __init__(self, step_size=0.05, factor=2**0.5, temperature=1.0):
        self.step_size, self.factor, self.temperature = step_size, factor, temperature

    def init(self, key, position, target):
        k_start, k_look = jax.random.split(key)
        found, feed = target.estimate(k_look, target.start(k_start), position)
        return State(position, (), (), found, feed, jnp.zeros((), jnp.int32))

    def step(self, key, state, target):
        k_noise, k_look = jax.random.split(key)
        flat, back = ravel_pytree(state.position)
        grad, _ = ravel_pytree(state.eval.grad)
        size = self.factor * jnp.sqrt(self.step_size * self.temperature)
        position = back(flat + self.step_size * grad + size * jax.random.normal(k_noise, flat.shape))
        found, feed = target.estimate(k_look, state.feed, position)
        new = State(position, (), (), found, feed, state.count + 1)
        zero, one, ok = jnp.zeros(()), jnp.ones(()), jnp.isfinite(found.log_density)
        return new, Info(found.log_density, zero, one, zero, jnp.ones((), jnp.int32), found.n_data, ok)

    def law(self):
        return Law("order", 1.0, None, "p^(1/T) as h → 0; bias O(h)")


# %%
# The audit
# ---------
# Of each target the distribution is known. The audit runs the sampler with its step size and with half of it, so that
# a bias that shrinks with the step size is told from one that does not.

kernels = {"√2 forgotten": ByHand(factor=1.0), "with √2": ByHand()}
audits = {name: lv.audit.audit_kernel(k, ("normal", "cold"), "quick", name=name) for name, k in kernels.items()}
for found in audits.values():
    print(found.outcome, "|", found.verdict)

# %%
# The picture
# -----------
# Figures of the audit: the variance of the draws over that of the target, and the total variation distance between
# them. The dotted line is the distance that Monte Carlo error alone gives.

figure, axes = plt.subplots(1, 2, figsize=(7, 3.2), layout="constrained")
names, targets = list(audits), ("normal", "cold")
for axis, figure_of, label in ((axes[0], "variance", "variance ÷ that of p"), (axes[1], "tv_target", "distance to p")):
    for i, (target, color) in enumerate(zip(targets, ("#0072B2", "#E69F00"), strict=True)):
        values = [audits[name].figures[f"{figure_of}_{target}"] for name in names]
        bars = axis.bar(np.arange(2) + 0.36 * (i - 0.5), values, 0.34, color=color, label=f"target {target!r}")
        axis.bar_label(bars, fmt="%.3f", fontsize=8)
    axis.set(xticks=(0, 1), xticklabels=names, ylabel=label)
    axis.margins(y=0.15)
axes[0].axhline(1.0, color="0.4", linewidth=1)
axes[1].axhline(audits["with √2"].figures["tv_floor_normal"], color="0.4", linewidth=1, linestyle=":")
axes[1].legend(fontsize="small", frameon=False)
plt.show()

# %%
# What holds
# ----------
# The audit rejects the wrong sampler, names the mistake, and measures its variance, half of what it should be. It
# finds no bias beyond the claimed order in the right one; that is no proof, but no bias found at this budget.

assert audits["√2 forgotten"].outcome == "failed"
assert "too small by √2" in audits["√2 forgotten"].verdict
assert abs(audits["√2 forgotten"].figures["variance_normal"] - 0.5) < 0.06
assert audits["with √2"].passed
assert audits["with √2"].figures["tv_target_normal"] < 0.03
