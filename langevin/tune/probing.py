r"""SMILE that watches the noise of its batches and seeks its step size by probes: the kernel that `tune.whiten` runs.

Every step's batch is evaluated in two halves, whose difference x = √(n/N) D(ĝ₁ − ĝ₂)/2 has the covariance of the noise
and nothing of the signal; sums of x², x xᵀW and (Wᵀx)(Wᵀx)ᵀ are kept. Every fourth step is a probe: a Verlet step with
both its gradients on one batch, whose energy error ΔE is a true Hamiltonian one. With ξ = ΔE²/(d·variance) the step
size follows Var[ΔE] ∝ ε⁶,

    ε = (X/Y)^−⅙,   X ← ρX + w ξ/ε⁶,   Y ← ρY + w,   w = exp(−½ (log ξ / 6·1.5)²),

and is capped so that kicks stay below δ. A probe that fails (ΔE not finite or beyond 20 √(d·variance)) puts position,
gradient and log density back together, draws the velocity anew, and cuts ε to four fifths.

References
----------
Robnik & Seljak (2024), Fluctuation without dissipation: microcanonical Langevin Monte Carlo, §4 (the ε⁶ rule).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree

from langevin.core import tree
from langevin.core.kernel import Wrapper, report
from langevin.core.record import record
from langevin.core.types import Eval, Law, State
from langevin.dynamics.integrators import INTEGRATORS
from langevin.dynamics.isokinetic import Point, force_of, glide, kick, moved, uniform
from langevin.samplers.smile import SMILE, cooled

PROBE = 4  # steps from one probe to the next
TRUST, MEMORY = 1.5, 50.0  # of the ε⁶ rule: tolerance in log ξ, and probes remembered


class Seen(NamedTuple):
    """Sums over the half-differences x of a round: how many, x², x xᵀW and (Wᵀx)(Wᵀx)ᵀ."""

    total: jax.Array
    square: jax.Array
    product: jax.Array
    gram: jax.Array


class Sought(NamedTuple):
    """ε with its running sums X, Y; the largest it may be; and the undone steps."""

    step_size: jax.Array
    weighted: jax.Array
    weights: jax.Array
    most: jax.Array
    undone: jax.Array


@record
class Probing(Wrapper):
    """SMILE that watches its noise and seeks its step size; the numbers live in `memory`.

    kernel: SMILE, with its scale.
    scale: D under which noise is watched, a flat vector.
    watched: W, (d, k) orthonormal.
    share: n/N.
    variance: of the energy error, a dimension, that is sought.
    cap: the largest δ of a kick.
    """

    kernel: SMILE
    scale: jax.Array
    watched: jax.Array
    share: Any
    variance: Any
    cap: Any

    def init(self, key, position, target):
        return self.adopt(self.kernel.init(key, position, target))

    def adopt(self, state: State) -> State:
        """A state of the inner kernel as one of this."""
        d, k = self.watched.shape
        zero, inf = jnp.zeros(()), jnp.full((), jnp.inf)
        seen = Seen(zero, jnp.zeros(d), jnp.zeros((d, k)), jnp.zeros((k, k)))
        start = jnp.asarray(self.kernel.step_size, jnp.float32)
        return state._replace(memory=(seen, Sought(start, zero, zero, inf, zero)))

    def step(self, key, state, target):
        seen, sought = state.memory
        h = self.capped(sought)
        words = jax.random.key_data(key)
        wrap = partial(jax.random.wrap_key_data, impl=jax.random.key_impl(key))
        probing = state.count % PROBE == 0
        go = partial(lax.cond, probing, lambda w: self._probe(wrap(w), state, target, h))
        position, velocity, evaluation, feed, error, x = go(lambda w: self._plain(wrap(w), state, target, h), words)
        seen = self._seen(seen, x)
        fine = tree.finite((position, evaluation)) & jnp.isfinite(error)
        fine &= (jnp.abs(error) < 20 * jnp.sqrt(self.variance * velocity.size)) | ~probing
        fine &= state.eval.log_density - evaluation.log_density <= self.kernel.max_drop
        k_anew = jax.random.fold_in(wrap(words), 3)
        there, here = (position, velocity, evaluation), (state.position, uniform(k_anew, position), state.eval)
        position, velocity, kept = tree.where(fine, there, here)
        sought = self._moved(sought, h, error, probing, fine, velocity.size)
        new = state._replace(
            position=position, aux=velocity, memory=(seen, sought), eval=kept, feed=feed, count=state.count + 1
        )
        n_grad = 1 + probing.astype(jnp.int32)
        return new, report(new, acceptance=fine, energy_error=error, n_grad=n_grad, n_data=n_grad * evaluation.n_data)

    def law(self) -> Law:
        return Law("wrong", 0.0, None, "none: scale and step size still move")

    def capped(self, sought: Sought):
        """ε, so that a kick of noise is not above δ: by the level of noise and by the one that L asks for."""
        d, kernel = self.scale.size, self.kernel
        by_level = self.cap * (d - 1) * kernel.temperature / jnp.sqrt(d * jnp.maximum(kernel.level, 1e-30))
        by_length = self.cap**2 * kernel.length * (d - 1) / (2 * d)
        return jnp.minimum(jnp.minimum(sought.step_size, sought.most), jnp.minimum(by_level, by_length))

    def _halves(self, batch, position, target):
        """The evaluation on a batch, and x of its halves."""
        two = halved(target, batch, position)
        mean = Eval(jnp.mean(two.log_density), jax.tree.map(lambda g: 0.5 * (g[0] + g[1]), two.grad), sum(two.n_data))
        return mean, jnp.sqrt(self.share) * self.scale * apart(two)

    def _plain(self, key, state, target, h):
        k_noise, k_draw = jax.random.split(key)
        kernel, T = self.kernel, self.kernel.temperature
        force = force_of(kernel.metric, state.eval, T) + kernel.completion(k_noise, state.aux, h, T)
        velocity, _ = kick(state.aux, force, h * cooled(h, force))
        position = moved(kernel.metric, state.position, velocity, h)
        batch, feed = target.draw(k_draw, state.feed)
        evaluation, x = self._halves(batch, position, target)
        return position, velocity, evaluation, feed, jnp.zeros(()), x

    def _probe(self, key, state, target, h):
        batch, feed = target.draw(key, state.feed)
        here, x = self._halves(batch, state.position, target)
        evaluate = partial(target.evaluate, batch)
        start = Point(state.position, state.aux, here)
        end, error = glide(INTEGRATORS["verlet"], evaluate, self.kernel.metric, start, h, self.kernel.temperature)
        return end.position, end.velocity, end.eval, feed, error, x

    def _seen(self, seen: Seen, x) -> Seen:
        fine = jnp.all(jnp.isfinite(x))
        x = jnp.where(fine, x, 0.0)
        y = self.watched.T @ x
        return Seen(seen.total + fine, seen.square + x**2, seen.product + jnp.outer(x, y), seen.gram + jnp.outer(y, y))

    def _moved(self, sought: Sought, h, error, probing, fine, d) -> Sought:
        xi = jnp.where(fine, error, 0.0) ** 2 / (d * self.variance) + 1e-8
        w = jnp.where(probing & fine, jnp.exp(-0.5 * (jnp.log(xi) / (6 * TRUST)) ** 2), 0.0)
        rho = jnp.where(probing & fine, (MEMORY - 1) / (MEMORY + 1), 1.0)
        # in units of the present ε, whose sixth power would underflow
        ratio = (h / sought.step_size) ** 6
        X, Y = rho * sought.weighted + w * xi / ratio, rho * sought.weights + w
        grow = jnp.where(Y > 0, (X / jnp.maximum(Y, 1e-30)) ** (-1 / 6), 1.0)
        grow = jnp.where(probing & fine, jnp.clip(grow, 0.7, 1.1), 1.0)
        # an undone step cuts ε, and bounds it; the bound gives way slowly
        most = jnp.where(fine, sought.most * 1.002, 0.8 * h)
        step = jnp.where(fine, sought.step_size * grow, 0.8 * h)
        kept = (step / sought.step_size) ** 6
        return Sought(step, X * kept, Y, most, sought.undone + ~fine)


def halved(target, batch, position) -> Eval:
    """The evaluations on the two halves of a batch, stacked: one gradient to compile."""
    halves = jax.tree.map(lambda *parts: jnp.stack(parts), *target.parts(batch, 2))
    return jax.vmap(target.evaluate, (0, None), axis_size=2)(halves, position)


def apart(two: Eval):
    """(ĝ₁ − ĝ₂)/2, flat."""
    return 0.5 * ravel_pytree(jax.tree.map(lambda g: g[0] - g[1], two.grad))[0]
