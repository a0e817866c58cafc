r"""Leave-one-out ensemble metric: every chain is preconditioned by the gradients of the others.

K chains θ¹ … θᴷ run together; chain i moves in the diagonal metric

    D^i = (q^i + λ²)^{-1/2},      q^i = (1/(K − 1)) Σ_{j≠i} g(θ^j)²   (coordinate by coordinate),
    θ^i ← θ^i + h D^i ĝ(θ^i) + √(2 T h D^i) ξ.

Recipe on z = (θ¹, …, θᴷ): D = diag(D¹, …, Dᴷ), Q = 0 and Γ = 0, for the block D^i does not depend on θ^i. So the
product law ∏ p^(1/T)(θ^i) is invariant as h → 0, with a bias O(h), at one gradient a chain and no second derivatives.
Were chain i in its own mean, Γ^i = ∇_i·D^i would be missing: a bias of order 1/K. Mini-batches are drawn
independently for each chain, so D^i and ĝ(θ^i) do not share one either. The metric adapts to the population, not to
the place of one chain. Chains of a group are independent under the law but not along the run: standard errors are
over groups.

Other chains as the source of a preconditioner are Leimkuhler, Matthews & Weare's (covariances, there); leaving the
chain out so that no divergence arises is their observation too. The squared gradients of RMSprop in that place are
ours.

References
----------
Leimkuhler, Matthews & Weare (2018), Ensemble preconditioning for Markov chain Monte Carlo simulation, §2.
Li, Chen, Carlson & Carin (2016), Preconditioned stochastic gradient Langevin dynamics (the diagonal of squares).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from langevin.core import noise
from langevin.core.advance import MAPPED
from langevin.core.kernel import Kernel, audited, begin, kernel, report
from langevin.core.noise import Noise
from langevin.core.record import nonnegative, positive, static
from langevin.core.schedule import Schedule, at
from langevin.core.types import Law


@kernel
class EnsembleSGLD(Kernel):
    """Langevin dynamics in a metric from the other chains' gradients.

    step_size: h.
    temperature: T; every chain targets p^(1/T).
    floor: λ, the root-mean-square gradient below which the metric is constant.
    group: K, how many chains share their gradients; 2 or more.
    noise: "normal" or "rademacher".
    """

    step_size: Schedule = positive(default=1e-3)
    temperature: Schedule = nonnegative(default=1.0)
    floor: float = positive(default=1.0)
    group: int = static(default=4)
    noise: Noise = static(default="normal")
    audit = audited(step_size=0.05)

    def __post_init__(self):
        if self.group < 2:
            raise ValueError(
                f"EnsembleSGLD: group is {self.group}; a chain needs at least one other, so take 2 or more."
            )

    def init(self, key, position, target):
        one = lambda key, position: begin(key, position, target)
        return jax.vmap(one, out_axes=MAPPED)(jax.random.split(key, self.group), position)

    def metric(self, grad):
        """D of every chain, from the others; a chain that has diverged does not take its group with it."""
        others = (1.0 - jnp.eye(self.group)) / (self.group - 1)

        def one(g):
            square = jnp.where(jnp.isfinite(g), g, 0.0) ** 2
            return (jnp.tensordot(others, square, 1) + self.floor**2) ** -0.5

        return jax.tree.map(one, grad)

    def step(self, key, state, target):
        k_noise, k_eval = jax.random.split(key)
        h, T = at(self.step_size, state.count), at(self.temperature, state.count)
        xi = noise.like(k_noise, state.position, self.noise)
        position = jax.tree.map(
            lambda u, d, g, n: (u + h * d * g + jnp.sqrt(2 * T * h * d) * n).astype(u.dtype),
            state.position,
            self.metric(state.eval.grad),
            state.eval.grad,
            xi,
        )
        one = lambda key, feed, position: target.estimate(key, feed, position)
        evaluation, feed = jax.vmap(one)(jax.random.split(k_eval, self.group), state.feed, position)
        new = state._replace(position=position, eval=evaluation, feed=feed, count=state.count + 1)
        return new, jax.vmap(report, (MAPPED,))(new)

    def law(self) -> Law:
        words = (
            "p^(1/T) for every chain of a group, independently, as h → 0; bias O(h), plus O(h) from mini-batch noise"
        )
        return Law("order", 1.0, None, words)
