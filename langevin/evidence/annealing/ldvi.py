r"""Langevin diffusion variational inference: differentiable annealing whose backward kernel is learned by a network.

The chain is that of `evidence.annealing.dais`, and so is its weight but for one factor a step. There
v ← γ v̂ + √(1 − γ²) ε is taken back by the law that reverses it at rest; here the mean of that law is shifted by a
network s,

    DAIS   v̂ ~ N(γ v, (1 − γ²) M)
    LDVI   v̂ ~ N(γ v + (1 − γ²) M^{½} s(β, θ, M^{−½}v), (1 − γ²) M),

both given v and θ after the step, so the log weight gains

    Σ_k M^{−½}(v̂_k − γ v_k)·s_k − ½ (1 − γ²) |s_k|².

Either law is normalised, so E w = Z for every s, and with s = 0 the weight is DAIS's own. The best s of small steps is
∇_u log p_k(θ, u)/N(u) in u = M^{−½}v, p_k the law that the chain has at step k: what equilibrium it lacks. The network
is h = (x, u, e(β)) W, x = θ in units of the base, e the first sines and cosines; h ← h + tanh(h W + b), some times; and
s = h W, whose W begins at zero. So learning begins at DAIS, and the bound is maximised together with all else that may
be learned (`learn_bound`). γ = 0 is the overdamped case, Monte Carlo diffusion (MCD).

References
----------
Geffner & Domke (2023), Langevin diffusion variational inference (arXiv 2208.07743).
Doucet, Grathwohl, Matthews & Strathmann (2022), Score-based diffusion meets annealed importance sampling (MCD).
Zhang, Hsu, Li, Finn & Grosse (2021), Differentiable annealed importance sampling, algorithm 1.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from langevin.core import noise, tree
from langevin.core.record import record, static
from langevin.core.types import Key, Scalar
from langevin.evidence.annealing.dais import begin_annealing, summarize_chains, weigh
from langevin.evidence.annealing.learn_bound import PARTS, learn_bound
from langevin.evidence.base import Normal, draw_starts
from langevin.evidence.method import Method, method
from langevin.evidence.types import Evidence

WAVES = 4  # sines, and as many cosines, of β


@record
class Score:
    """The network s(β, θ, u) over the raveled position, u the velocity in units of M^{½}; `Score.begin` draws one.

    centre: (d,), taken from θ.
    spread: (d,), by which θ is divided.
    enter: (2d + 2·WAVES + 1, width).
    inner: (depth, width, width).
    shift: (depth, width).
    leave: (width, d); zero at the beginning.
    """

    centre: Any
    spread: Any
    enter: Any
    inner: Any
    shift: Any
    leave: Any

    @classmethod
    def begin(cls, key: Key, base: Normal, *, width: int = 32, depth: int = 2) -> Score:
        """A network that is zero, for positions like those of the base."""
        wide = lambda v: jax.tree.map(lambda v, u: jnp.broadcast_to(jnp.asarray(v, float), jnp.shape(u)), v, base.mean)
        centre, spread = (ravel_pytree(wide(u))[0] for u in (base.mean, tree.fill(base.scale, base.mean)))
        k_enter, k_inner = jax.random.split(key)
        d, many = centre.size, 2 * centre.size + 2 * WAVES + 1
        enter = noise.normal(k_enter, (many, width)) / math.sqrt(many)
        inner = noise.normal(k_inner, (depth, width, width)) / math.sqrt(width)
        return cls(centre, spread, enter, inner, jnp.zeros((depth, width)), jnp.zeros((width, d)))

    def __call__(self, beta: jax.Array, theta: jax.Array, u: jax.Array) -> jax.Array:
        """s of many steps at once: β (step,), θ and u (step, d)."""
        place, unit = jax.lax.stop_gradient((self.centre, self.spread))
        angle = math.pi * beta[:, None] * jnp.arange(1.0, WAVES + 1)[None]
        x = [(theta - place[None]) / unit[None], u, beta[:, None], jnp.sin(angle), jnp.cos(angle)]
        h = jnp.concatenate(x, axis=1) @ self.enter
        for weight, shift in zip(self.inner, self.shift, strict=True):
            h = h + jnp.tanh(h @ weight + shift[None])
        return h @ self.leave

    def gain(self, gamma, mass, beta, theta, v, moved) -> Scalar:
        """What the steps of a block add to DAIS's log weight; v after and `moved` before the refreshment."""
        root = jnp.sqrt(mass)[None]
        s = self(beta, theta, v / root)
        return tree.dot((moved - gamma * v) / root, s) - 0.5 * (1 - gamma**2) * tree.dot(s, s)


@method("ldvi")
class LDVI(Method):
    """Annealing on few rungs with a learned backward kernel, weighed by fresh chains; from a Normal: unbiased-Z.

    ladder: the rungs, or how many.
    step_size: η to begin with, one number or one for each step; None for steps that fit the curvature at the mode.
    gamma: γ to begin with.
    mass: M, diagonal: a number, or a tree like the position.
    particles: the chains that are weighed.
    steps: of Adam.
    rate: of Adam.
    chains: averaged in a step of Adam.
    width: of the network.
    depth: of the network.
    parts: what is learned beside it, as in `learn_bound`.
    """

    ladder: Any = static(default=8)
    step_size: Any = None
    gamma: float = 0.9
    mass: Any = 1.0
    particles: int = static(default=1024)
    steps: int = static(default=1000)
    rate: float = 5e-3
    chains: int = static(default=64)
    width: int = static(default=32)
    depth: int = static(default=2)
    parts: tuple[str, ...] = static(default=PARTS)

    def __post_init__(self):
        if self.steps < 1 or self.width < 1 or self.depth < 0:
            raise ValueError(
                f"ldvi: steps is {self.steps}, width {self.width}, depth {self.depth}; steps and width must be 1 or "
                "more, depth 0 or more."
            )

    def estimate_evidence(self, key, target, base, draws) -> Evidence:
        if not isinstance(base, Normal):
            raise TypeError(f"ldvi: the base is {type(base).__name__}; what is learned is a Normal(mean, scale).")
        k_start, k_score, k_learn, k_run = jax.random.split(key, 4)
        start = jax.tree.map(lambda u: u[0], draw_starts(k_start, base, target, 64))
        annealing, n_eval = begin_annealing(self, target, base, start)
        score = Score.begin(k_score, base, width=self.width, depth=self.depth)
        options: dict[str, Any] = dict(steps=self.steps, rate=float(self.rate), particles=1, draws=self.chains)
        found = learn_bound(k_learn, target, base, annealing, parts=self.parts, backward=score, **options)
        log_w = weigh(k_run, target, found.base, found.annealing, backward=found.backward, particles=self.particles)
        # a gradient of the bound costs a gradient and a product with the Hessian a rung; the product counts as two
        n_grad = annealing.length * (self.particles + 3 * self.steps * self.chains) + n_eval
        return summarize_chains(log_w, n_grad, target)
