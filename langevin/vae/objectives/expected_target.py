r"""HMC whose step sizes are learned: the expected log density of its last state is climbed through the leapfrog steps.

    ψ ← ∇_ψ E log p_θ(x, z_T),      z_0 ~ N(μ_φ, s² σ_φ²),

T transitions, each L leapfrog steps of sizes ε_t, then a Metropolis test; decisions are constants, and so are the
gradients of log p inside the integrator.

The entropy of z_T is left out: collapse to the mode is prevented by a start that is wide enough, s, one number a
coordinate, which goes down the maximal sliced kernelised Stein discrepancy of the chains' ends, in the directions of
the axes. φ goes up the ELBO, θ up log p_θ(x, z_T). The value is the ELBO.

References
----------
Campbell, Chen, Stimper, Hernández-Lobato & Zhang (2021), A gradient based strategy for Hamiltonian Monte Carlo
  hyperparameter optimization, §3, algorithm 1.
Gong, Li & Hernández-Lobato (2021), Sliced kernelized Stein discrepancy, eq. (9).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from langevin.core import noise
from langevin.core.record import positive, record, static
from langevin.samplers.hmc import HMC
from langevin.vae.chains import check_chain, with_gradient
from langevin.vae.objectives.weighted import Weighted
from langevin.vi.objectives.elbo import ELBO


@record
class ExpectedTarget:
    """Learned HMC (max-ELT).

    steps: T, transitions.
    leapfrogs: L.
    draws: chains of one example; the discrepancy compares them with one another.
    step_size: ε to begin with, in units of the encoder's standard deviations.
    """

    steps: int = static(default=5)
    leapfrogs: int = static(default=5)
    draws: int = static(default=8)
    step_size: float = positive(default=0.1)

    def __post_init__(self):
        check_chain("ExpectedTarget", HMC(), self.steps, self.draws)
        if self.draws < 2 or self.leapfrogs < 1:
            raise ValueError(
                f"ExpectedTarget: {self.draws} draws and {self.leapfrogs} leapfrogs; draws must be 2 or more, "
                "leapfrogs 1 or more."
            )

    def init(self, key, model):
        steps = jnp.full((self.steps, model.latent), jnp.log(self.step_size))
        return {"log_step": steps, "log_inflation": jnp.zeros(model.latent)}

    def values(self, key, posteriors, params):
        k_bound, k_chain = jax.random.split(key)
        elbo = Weighted(ELBO()).values(k_bound, posteriors.held(theta=True), ())
        z, scores, _ = self.run(k_chain, posteriors.held(theta=True, q=True), params)
        fixed = jax.lax.stop_gradient(z)
        held = posteriors.held(theta=True, q=True)
        # step sizes climb the density alone: what moves the width of the start is the discrepancy
        steps = held.log_joint(z[0])
        width = jax.vmap(sliced_discrepancy)(z[1], scores[1])
        learn = jnp.mean(steps + posteriors.held(q=True).log_joint(fixed[0]), axis=1) - width
        return elbo + with_gradient(jnp.zeros(()), learn)

    def run(self, key, posteriors, params):
        """Ends (row, draw, latent) as a function of the step sizes, and of the inflation; their scores; accepted."""
        k_start, k_run = jax.random.split(key)
        e = noise.like(k_start, jnp.zeros((posteriors.rows, self.draws, posteriors.model.latent)))
        held = jax.lax.stop_gradient(params)
        ends, scores = [], []
        for log_step, log_inflation in (
            (params["log_step"], held["log_inflation"]),
            (held["log_step"], params["log_inflation"]),
        ):
            z = posteriors.q.mean[:, None] + posteriors.q.scale[:, None] * jnp.exp(log_inflation)[None, None] * e
            z, accepted = self._chain(jax.random.clone(k_run), posteriors, z, log_step)
            ends.append(z)
            scores.append(jax.grad(lambda z: jnp.sum(posteriors.log_joint(z)))(z))
        return tuple(ends), tuple(scores), accepted

    def _chain(self, key, posteriors, z, log_step):
        value_and_slope = lambda z: _value_and_slope(posteriors, z)
        unit = posteriors.q.scale[:, None]

        def step(carry, x):
            z, value, force = carry
            word, log_step = x
            k_momentum, k_accept = jax.random.split(wrap(word))
            h = jnp.exp(log_step)[None, None] * unit
            v = first = noise.like(k_momentum, z)
            new, slope = z, force
            for _ in range(self.leapfrogs):
                v = v + 0.5 * h * jax.lax.stop_gradient(slope)
                new = new + h * v
                there, slope = value_and_slope(new)
                v = v + 0.5 * h * jax.lax.stop_gradient(slope)
            log_ratio = there - value + 0.5 * jnp.sum(first**2 - v**2, axis=-1)
            yes = jnp.log(jax.random.uniform(k_accept, log_ratio.shape)) < log_ratio
            pick = lambda a, b: jnp.where(yes.reshape(*yes.shape, *[1] * (a.ndim - 2)), a, b)
            return tuple(map(pick, (new, there, slope), (z, value, force))), jnp.mean(yes.astype(float))

        words, wrap = noise.words(jax.random.split(key, self.steps))
        (z, _, _), accepted = jax.lax.scan(step, (z, *value_and_slope(z)), (words, log_step))
        return z, accepted


def _value_and_slope(posteriors, z):
    value, pull = jax.vjp(posteriors.log_joint, z)
    return value, pull(jnp.ones_like(value))[0]


def sliced_discrepancy(z: jax.Array, scores: jax.Array) -> jax.Array:
    """Σ over coordinates of the U-statistic of the one-dimensional discrepancy, of draws z and scores (draw, latent).

    A Gaussian kernel with the median distance of each coordinate. Zero in the mean if z ~ p and there are many draws;
    with eight the median, found from the same draws, adds about 0.05.
    """
    n = z.shape[0]
    delta = z[:, None] - z[None]
    length = jax.lax.stop_gradient(jnp.sqrt(jnp.median(delta**2 + 1e-12, axis=(0, 1), keepdims=True)) + 1e-6)
    k = jnp.exp(-0.5 * (delta / length) ** 2)
    one, two = -delta / length**2 * k, delta / length**2 * k  # ∂k in the first and in the second argument
    both = (1 / length**2 - delta**2 / length**4) * k
    s, t = scores[:, None], scores[None]
    u = s * t * k + s * two + t * one + both
    off = 1 - jnp.eye(n)[..., None]
    return jnp.sum(u * off) / (n * (n - 1))
