r"""Motion at constant speed: the flow of microcanonical dynamics, its palindromic integration and its refreshment.

With |u| = 1, force F = Sᵀ∇log p(θ) in the coordinates φ of θ = Sφ, and d dimensions,

    θ̇ = S u,      u̇ = (I − u uᵀ) F/(d − 1),

keep p(θ) × Uniform(u). Velocity and position are moved in turn, each exactly. For F held through a time t let
e = F/|F|, δ = t|F|/(d − 1), c = u·e, and p = |u + e|²/4 = (1 + c)/2, q = |u − e|²/4 = (1 − c)/2, which do not cancel
where u is (anti)parallel to F. Then with Z = p e^δ + q e^−δ

    u' = (p e^δ − q e^−δ)/Z · e + (u − c e)/Z,      ΔK = (d − 1) log Z,

a translation by δ of the rapidity artanh c; log Z is taken as a two-sided log-sum, and for small δ as
log1p(c sinh δ + 2 sinh²(δ/2)). The energy error of a step, ΔE = Σ ΔK − Δ log p, is what a Metropolis test accepts by. A
partial refreshment

    u' = (u + ν z)/|u + ν z|,      ν² = (e^{2t/L} − 1)/d,      z ~ N(0, I),

forgets the direction over the length L: E[u·u'] = e^{−t/L} in many dimensions. Velocities are flat vectors.

References
----------
Robnik, De Luca, Silverstein & Seljak (2023), Microcanonical Hamiltonian Monte Carlo, eqs. (15)-(17).
Robnik & Seljak (2024), Fluctuation without dissipation: microcanonical Langevin Monte Carlo, eqs. (7)-(9).
Steeg & Galstyan (2021), Hamiltonian dynamics with non-Newtonian momentum for rapid sampling, §3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from langevin.core import noise, tree
from langevin.core.types import Eval, Key, PyTree, Scalar
from langevin.dynamics.integrators import Coefficients

LEAST = 1e-14  # of (1 ± c)/2: what rounding leaves of a pair of unit vectors that cancel


class Point(NamedTuple):
    """A point of the flow: position, unit velocity, and the target at the position."""

    position: PyTree
    velocity: jax.Array
    eval: Eval


def kick(velocity: jax.Array, force: jax.Array, time: Scalar) -> tuple[jax.Array, Scalar]:
    """The velocity after a time under a constant force, and the change ΔK of kinetic energy."""
    rate = velocity.size - 1
    norm = jnp.sqrt(jnp.sum(force**2))
    e = force * (jnp.sign(time) / jnp.where(norm > 0, norm, 1.0))
    delta = jnp.abs(time) * norm / rate
    p, q = jnp.sum((velocity + e) ** 2), jnp.sum((velocity - e) ** 2)
    whole = p + q  # 4, and 2 where there is no force
    p, q = jnp.maximum(p / whole, LEAST), jnp.maximum(q / whole, LEAST)
    c, z = p - q, jnp.exp(-delta)
    total = p + q * z**2
    new = ((p - q * z**2) / total) * e + (z / total) * (velocity - c * e)
    few = jnp.minimum(delta, 0.5)
    small = jnp.log1p(c * jnp.sinh(few) + 2 * jnp.sinh(few / 2) ** 2)
    large = jnp.logaddexp(jnp.log(p) + delta, jnp.log(q) - delta)
    return unit(new).astype(velocity.dtype), rate * jnp.where(delta < 0.5, small, large)


def refreshed(key: Key, velocity: jax.Array, time: Scalar, length: Scalar) -> jax.Array:
    """The velocity after its direction has been forgotten in part, over `time` of a memory of `length`."""
    nu = jnp.sqrt(jnp.expm1(2 * time / length) / velocity.size)
    return unit(velocity + nu * noise.like(key, velocity)).astype(velocity.dtype)


def uniform(key: Key, position: PyTree) -> jax.Array:
    """A direction, every one as likely."""
    dtype = jnp.result_type(jnp.float32, *jax.tree.leaves(position))
    return unit(noise.like(key, jnp.zeros(dimension(position), dtype)))


def unit(u: jax.Array) -> jax.Array:
    """u/|u|, and 0 for 0."""
    return u * jax.lax.rsqrt(jnp.maximum(jnp.sum(u**2), jnp.finfo(u.dtype).tiny))


def dimension(position: PyTree) -> int:
    """d; in one dimension there is no direction to turn to."""
    d = tree.size(position)
    if d < 2:
        raise ValueError("microcanonical dynamics need two dimensions or more; in one, use HMC or MALA.")
    return d


def force_of(metric, evaluation: Eval, temperature: Scalar) -> jax.Array:
    """F = Sᵀ∇log p/T as a flat vector."""
    return ravel_pytree(metric.pull(evaluation.grad))[0] / temperature


def moved(metric, position: PyTree, velocity: jax.Array, time: Scalar) -> PyTree:
    """θ + t S u."""
    unravel = ravel_pytree(position)[1]
    return tree.axpy(time, metric.root(unravel(velocity)), position)


def glide(
    coefficients: Coefficients,
    evaluate: Callable[[PyTree], Eval],
    metric,
    point: Point,
    step_size: Scalar,
    temperature: Scalar,
) -> tuple[Point, Scalar]:
    """One palindromic step; the energy error is that of p^(1/T)."""
    position, velocity, here = point
    kinetic, now = jnp.zeros(()), here
    for b, a in zip(coefficients.kicks, coefficients.drifts, strict=False):
        velocity, gain = kick(velocity, force_of(metric, now, temperature), b * step_size)
        position = moved(metric, position, velocity, a * step_size)
        now, kinetic = evaluate(position), kinetic + gain
    velocity, gain = kick(velocity, force_of(metric, now, temperature), coefficients.kicks[-1] * step_size)
    error = kinetic + gain + (here.log_density - now.log_density) / temperature
    return Point(position, velocity, now), error
