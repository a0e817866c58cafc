r"""The Zig-Zag process of a factored target with subsampling and control variates.

At β, θ moves with velocity v_j = ζ_j s_j, ζ_j = ±1, and ζ_j flips at a rate whose antisymmetric part is
v_j ∂_jU, U = −log p_β. With g_j = ∂_j of −log π − β G(a)·θ, linear in θ, and a datum i of probability q_ij,

    (v_j g_j(θ))_+  +  E_{i~q_j} (−β v_j Δ_ij(θ)/q_ij)_+,      Δ_ij = ∂_j l_i(θ) − ∂_j l_i(a).

The first clock is run exactly and needs no data. The second is thinned: |Δ_ij| ≤ c_ij ‖δ/S‖ and ‖δ/S‖ grows at most at
the speed ‖s/S‖, so β s_j C_j (‖δ/S‖ + t ‖s/S‖), C_j = max_i c_ij/q_ij, bounds it, linear in t, and one datum an event
decides. q_j ∝ c_j ("weighted") makes C_j = Σ_i c_ij, "uniform" n max_i c_ij: many times the events. s_j(β) is the
standard deviation of coordinate j under p_β by the curvature at the anchor, so τ = 1 is one of them. ζ is uniform and
independent of θ under every p_β, so it is kept between rungs and never drawn anew.

References
----------
Bierkens, Fearnhead & Roberts (2019), The Zig-Zag process and super-efficient sampling for Bayesian analysis of big
  data, §4 (subsampling, control variates).
Sen, Sachs, Lu & Dunson (2020), Efficient posterior sampling for high-dimensional imbalanced logistic regression
  (data drawn in proportion to their bounds).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from langevin.core import noise
from langevin.core.record import record
from langevin.core.types import Key, Scalar
from langevin.evidence.minibatch.factored import TINY, Anchor, Choice, Factored, assign_tickets, find_anchor


@record
class Process:
    """The Zig-Zag process of a factored target, at any β; made by `build_process(target)`.

    target: the factored target.
    anchor: what is known of the likelihood at the anchor.
    tickets: how data are drawn.
    """

    target: Any
    anchor: Any
    tickets: Any

    def speeds(self, beta) -> jax.Array:
        """s_j(β) for every β given, (K, d): diagonals of (P − β H)⁻¹, P the prior's precision, by one eigh."""
        wide = self.target.base.scale
        values, vectors = jnp.linalg.eigh(-wide[:, None] * self.anchor.hessian * wide[None, :])
        shares = (wide[:, None] * vectors) ** 2
        return jnp.sqrt((1 / (1 + beta[:, None] * jnp.maximum(values, 0.0)[None])) @ shares.T)


class Particle(NamedTuple):
    """Where a particle is."""

    position: jax.Array  # θ
    sign: jax.Array  # ζ
    n_data: Scalar  # examples evaluated
    excess: Scalar  # the largest thinning probability met; above one the bound is broken


def build_process(target: Factored, anchor: Anchor | None = None, *, choice: Choice = "weighted") -> Process:
    """The process of a target about an anchor (default: `find_anchor(target)`), with its tickets."""
    if not isinstance(target, Factored):
        raise TypeError(
            f"zigzag: {type(target).__name__} is no factored target (with n, prior, factors, bound and base), such as "
            "`linear` and `logistic` of evidence.minibatch.factored make."
        )
    anchor = find_anchor(target) if anchor is None else anchor
    return Process(target, anchor, assign_tickets(target.bound(anchor), choice))


def first_event(level, rise, e):
    """When the clock of rate (level + rise t)_+ strikes, e ~ Exp(1)."""
    rise = jnp.maximum(rise, TINY)  # a clock at rest strikes too late to matter, not at once
    root = jnp.sqrt(jnp.maximum(level, 0.0) ** 2 + 2 * rise * e)
    return jnp.where(level > 0, 2 * e / (level + root), (root - level) / rise)


def flow(key: Key, process: Process, beta, speed: jax.Array, duration, particle: Particle) -> Particle:
    """Run the process at β for a time `duration` with the speeds s."""
    base, anchor, target = process.target.base, process.anchor, process.target
    d = speed.shape[0]
    precision = base.scale**-2
    heights = jnp.cumsum(speed * process.tickets.limit)
    total, growth = beta * heights[-1], jnp.linalg.norm(speed / anchor.scale)
    words, wrap = noise.words(key)

    def turn(carry):
        words, left, (position, sign, n_data, excess) = carry
        key, k_clock, k_axis, k_datum, k_accept = jax.random.split(wrap(words), 5)
        known = sign * speed * (precision * (position - base.mean) - beta * anchor.grad)
        far = jnp.linalg.norm((position - anchor.position) / anchor.scale)
        level = jnp.append(known, total * far)
        rise = jnp.append(precision * speed**2, total * growth)
        times = first_event(level, rise, jax.random.exponential(k_clock, (d + 1,), speed.dtype))
        which = jnp.argmin(times)
        t = jnp.minimum(times[which], left)
        struck, position = times[which] < left, position + t * sign * speed

        # a strike of the last clock: one datum of one coordinate decides
        u = jax.random.uniform(k_axis, (), speed.dtype) * heights[-1]
        j = jnp.sum(heights[:-1] <= u)
        i = process.tickets.draw(k_datum, j)
        change = target.factors(i[None], position).grads[0, j] - anchor.factors.grads[i, j]
        ceiling = jnp.maximum(process.tickets.chance[i, j] * process.tickets.limit[j] * (far + t * growth), TINY)
        probability = -sign[j] * change / ceiling
        accept = jax.random.uniform(k_accept, (), speed.dtype) < probability

        looked = struck & (which == d)
        flips = jnp.where(which == d, accept, struck) & struck
        sign = jnp.where(flips & (jnp.arange(d) == jnp.where(which == d, j, which)), -sign, sign)
        excess = jnp.where(looked, jnp.maximum(excess, jnp.abs(probability)), excess)
        left = jnp.where(struck, left - t, 0.0)
        return noise.words(key)[0], left, Particle(position, sign, n_data + looked, excess)

    left = jnp.asarray(duration, speed.dtype)
    return lax.while_loop(lambda carry: carry[1] > 0, turn, (words, left, particle))[2]
