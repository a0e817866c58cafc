"""Samplers with one mistake each, as a user might write them; the audit must say which."""

from typing import Any

import jax
import jax.numpy as jnp

from langevin.core import noise, tree
from langevin.core.kernel import Kernel, begin, metropolis, report
from langevin.core.record import positive, record, static
from langevin.core.types import Law
from langevin.dynamics.recipe import Recipe
from langevin.samplers.sghmc import SGHMC
from langevin.samplers.sgld import SGLD


@record
class Quiet(SGLD):
    """SGLD whose noise lacks the √2."""

    step_size: Any = positive(default=0.05)

    def sqrt_D(self, z, memory, v):
        return tree.scale(0.5**0.5, v)


@record
class Bare(Recipe):
    """A metric D = (g² + λ²)^−½ without Γ that claims order 1."""

    step_size: Any = positive(default=0.02)
    temperature: Any = 1.0
    floor: Any = 0.3
    noise: str = static(default="normal")

    def remember(self, memory, grad):
        return jax.tree.map(lambda g: (g**2 + self.floor**2) ** -0.5, grad)

    def D(self, z, memory, v):
        return tree.mul(memory, v[0]), v[1]

    def sqrt_D(self, z, memory, v):
        return tree.mul(jax.tree.map(jnp.sqrt, memory), v[0]), v[1]


@record
class Flipped(SGHMC):
    """SGHMC with the sign of one block of Q flipped, so that Q is no longer skew."""

    step_size: Any = positive(default=0.1)
    friction: Any = positive(default=2.0)

    def Q(self, z, memory, v):
        return tree.scale(-1.0, v[1]), tree.scale(-1.0, v[0])


@record
class Mirrored(SGHMC):
    """SGHMC with −Q: momentum with the opposite sign, and as right as before."""

    step_size: Any = positive(default=0.1)
    friction: Any = positive(default=2.0)

    def Q(self, z, memory, v):
        return v[1], tree.scale(-1.0, v[0])


@record
class Boastful(SGLD):
    """SGLD that claims order 2."""

    step_size: Any = positive(default=0.4)

    def law(self):
        return Law("order", 2.0, None, "p^(1/T) as h → 0; bias O(h²)")


@record
class HalfFrozen(SGLD):
    """SGLD that never moves the second half of the coordinates."""

    step_size: Any = positive(default=0.05)

    def step(self, key, state, target):
        new, info = SGLD.step(self, key, state, target)
        half = max(1, state.position.size // 2)
        return new._replace(position=new.position.at[half:].set(state.position[half:])), info


@record
class Careless(Kernel):
    """A random walk of a scale that grows with |x|, whose Metropolis test leaves out the ratio of the proposals."""

    step_size: Any = positive(default=0.4)

    def init(self, key, position, target):
        return begin(key, position, target)

    def step(self, key, state, target):
        k_move, k_look, k_accept = jax.random.split(key, 3)
        x = state.position
        moved = x + jnp.sqrt(2 * self.step_size * (1 + x**2)) * noise.like(k_move, x)
        seen, feed = target.estimate(k_look, state.feed, moved)
        error = state.eval.log_density - seen.log_density
        new, probability = metropolis(k_accept, error, state._replace(position=moved, eval=seen), state)
        new = new._replace(feed=feed, count=state.count + 1)
        return new, report(new, acceptance=probability, energy_error=error)

    def law(self):
        return Law("exact", 0.0, None, "p")


class Stuck:
    """No record, no law, and a temperature that it never looks at."""

    def __init__(self):
        self.step_size, self.temperature = 0.05, 1.0

    def init(self, key, position, target):
        return begin(key, position, target)

    def step(self, key, state, target):
        return SGLD(self.step_size).step(key, state, target)


@record
class Weighted(Kernel):
    """Exact draws of N(0, 2) with importance weights, in pairs of which the second is never collected."""

    step_size: Any = positive(default=0.1)
    group: int = static(default=2)

    def init(self, key, position, target):
        keys = jax.random.split(key, self.group)
        state = jax.vmap(lambda k, x: begin(k, x, target))(keys, position)
        return state._replace(count=jnp.zeros((), jnp.int32))

    def step(self, key, state, target):
        x = jnp.sqrt(2.0) * noise.like(key, state.position)
        log_weight = jnp.stack([-0.25 * jnp.sum(x[0] ** 2), -jnp.inf])
        new = state._replace(position=jnp.stack([x[0], 7.0 + x[1]]), count=state.count + 1)
        return new, jax.vmap(lambda s, w: report(s, log_weight=w), (type(new)(0, 0, 0, 0, 0, None), 0))(new, log_weight)

    def law(self):
        return Law("exact", 0.0, None, "p, by weights")


NOT_A_KERNEL = object()
