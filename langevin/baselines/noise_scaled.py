r"""Gradient ascent with noise that fades where the gradient is long: what STANLEY's released code runs.

The paper prints drift and noise in one step size (`stanley`). The code of its image experiments scales the noise alone,
and that of its toy experiment scales the noise by the factor itself where a Langevin step takes its root:

    images:  x' = x + h ∇f + √(2Th) s ξ,        toy:  x' = x + h s ∇f + √(2Th) s ξ,        s = τ/max(τ, |∇f|),

f = log p; their λ is h and their noise ε is √(2Th). The local temperature is T s² (images) or T s (toy): colder on
slopes. Neither is a Langevin sampler of p. In one dimension, and for independent coordinates with one s each,

    q ∝ s⁻² exp(∫ ∇f/(T s²)),      toy:  q ∝ s⁻² exp(∫ ∇f/(T s)),

and elsewhere there is no closed form. It is here so that published numbers can be examined. Their th is τ; the
norm is over channels (`per="pixel"` for images, `"chain"` for points in the plane).

References
----------
Karimi, Xie & Li (2023), STANLEY: stochastic gradient anisotropic Langevin dynamics for learning energy-based models,
    arXiv:2310.12667, eq. (4) (s), and the authors' public code.
"""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp

from langevin.core import noise, tree
from langevin.core.kernel import Kernel, audited, begin, kernel, report, warn_once
from langevin.core.noise import Noise
from langevin.core.record import nonnegative, positive, record, static
from langevin.core.schedule import Schedule, at
from langevin.core.target import Exact, independent
from langevin.core.types import Law
from langevin.dynamics.metrics.truncated import Per, Truncated, check

NODES = 64


@kernel
class NoiseScaled(Kernel):
    """Gradient ascent with noise that fades on slopes; of no law but its own.

    step_size: h.
    temperature: T of the noise where the slope is gentle.
    threshold: τ, the length of gradient beyond which the noise fades.
    variant: "images" (the drift is not scaled) or "toy" (both by s).
    per: "chain" (one s), "coordinate", or "pixel" (by channels, for images (channel, height, width)).
    noise: "normal" or "rademacher".
    """

    step_size: Schedule = positive(default=1e-2)
    temperature: Schedule = nonnegative(default=1.0)
    threshold: float = positive(default=1.0)
    variant: Literal["images", "toy"] = static(default="images")
    per: Per = static(default="pixel")
    noise: Noise = static(default="normal")
    audit = audited(step_size=0.02, threshold=0.7, per="coordinate")

    def __post_init__(self):
        check("NoiseScaled", "max", self.per)
        if self.variant not in ("images", "toy"):
            raise ValueError(f"NoiseScaled: variant is {self.variant!r}; it must be 'images' or 'toy'.")
        warn_once(f"NoiseScaled converges to {self.law().words}.")

    @property
    def scale(self) -> Truncated:
        """s."""
        return Truncated(self.threshold, "max", self.per)

    def init(self, key, position, target):
        return begin(key, position, target)

    def step(self, key, state, target):
        k_noise, k_eval = jax.random.split(key)
        h, T = at(self.step_size, state.count), at(self.temperature, state.count)
        position, grad, scale = state.position, state.eval.grad, self.scale
        s = scale.geometry((), grad, position)
        fade = lambda v: scale.apply(s, v)
        pull = fade(grad) if self.variant == "toy" else grad
        kick = tree.scale(jnp.sqrt(2 * T) * jnp.sqrt(h), fade(noise.like(k_noise, position, self.noise)))
        position = tree.axpy(h, pull, tree.add(position, kick))
        evaluation, feed = target.estimate(k_eval, state.feed, position)
        new = state._replace(position=position, eval=evaluation, feed=feed, count=state.count + 1)
        return new, report(new)

    def law(self) -> Law:
        power = "s²" if self.variant == "images" else "s"
        words = (
            f"s⁻² exp(∫∇f/(T {power})), s = τ/max(τ, |∇f|): colder on slopes, not p^(1/T) (in one dimension and for "
            "independent coordinates; without closed form otherwise); take Stanley, whose default is exact"
        )
        return Law("wrong", 1.0, Fade(self.scale, self.temperature, 2 if self.variant == "images" else 1), words)


@record
class Faded(Exact):
    """The law of NoiseScaled: the work of ∇f/(T s^power) along the way from the origin, over s².

    target: f.
    scale: s.
    temperature: T.
    power: of s in the local temperature.
    """

    target: Any
    scale: Any
    temperature: Any = 1.0
    power: int = static(default=2)

    def log_density(self, position):
        apart = self.scale.per == "coordinate" and independent(self.target)
        if tree.size(position) > 1 and not apart:
            raise ValueError(
                "NoiseScaled: its law has a closed form in one dimension and for independent coordinates only."
            )
        grad = jax.grad(self.target.log_density)

        def work(t):
            g = grad(tree.scale(t, position))
            s = self.scale.geometry((), g, position)
            return tree.dot(jax.tree.map(lambda g, s: g / jnp.broadcast_to(s, g.shape) ** self.power, g, s), position)

        T = at(self.temperature, jnp.zeros((), jnp.int32))
        total = jnp.mean(jax.vmap(work)((jnp.arange(NODES) + 0.5) / NODES)) / T
        return total - 2 * self.scale.tilt(self.scale.geometry((), grad(position), position))


class Fade:
    """Target → Faded; a class so that laws compare and print."""

    def __init__(self, scale, temperature, power):
        self.scale, self.temperature, self.power = scale, temperature, power

    def __call__(self, target):
        return Faded(target, self.scale, self.temperature, self.power)
