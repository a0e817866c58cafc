r"""A score as a target, and annealed Langevin dynamics: a kernel on one noise level after another.

At level σ the target is p_σ in units of σ, so that one step size fits all levels; at the end the noise that is left is
taken off by Tweedie's formula, x + σ² s(x, σ).

References
----------
Song & Ermon (2019), Generative modeling by estimating gradients of the data distribution, alg. 1.
Song & Ermon (2020), Improved techniques for training score-based generative models, §3.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from langevin.core import noise
from langevin.core.kernel import Kernel
from langevin.core.record import as_record, record
from langevin.core.target import Batched, Exact, HasDensity
from langevin.core.types import Eval, Key

UNROLLED = 4  # steps of a kernel at one level up to which they are written out: the last look is then left out


def has_density(score: Any) -> bool:
    """Whether a score is the gradient of a log density that it can say."""
    return bool(getattr(score, "conservative", hasattr(score, "log_density")))


@record
class Level(Exact):
    """A diffused density whose log is known, as a target for z = x/scale.

    score: has log_density(x, t, *condition).
    t: the time or noise level.
    scale: the unit of z; with the noise as a unit, one step size fits all levels.
    condition: what the score is also shown, a tuple.
    """

    score: Any
    t: Any
    scale: Any = 1.0
    condition: Any = ()

    def log_density(self, position):
        return self.score.log_density(self.scale * position, self.t, *self.condition)


@record
class ScoreLevel(Batched):
    """A diffused density of which only the score is known, as a target for z = x/scale; it has no log density.

    score: (x, t, *condition) → ∇log p_t(x).
    t: the time or noise level.
    scale: the unit of z.
    condition: what the score is also shown, a tuple.
    """

    score: Any
    t: Any
    scale: Any = 1.0
    condition: Any = ()
    stochastic = False

    def start(self, key):
        return ()

    def draw(self, key, feed, *, fraction=1.0):
        return (), feed

    def evaluate(self, batch, position):
        grad = self.scale * self.score(self.scale * position, self.t, *self.condition)
        # a constant value, and NaN only where the score is, so that the chain is reported
        return Eval(jnp.where(jnp.all(jnp.isfinite(grad)), 0.0, jnp.nan), grad, jnp.ones((), jnp.int32))

    def parts(self, batch, n):
        return (batch,) * n


def level_of(score: Any, t: Any, scale: Any = 1.0, condition: Any = ()) -> Level | ScoreLevel:
    """The target at one level: with its log density where the score has one, so that Metropolis kernels may be used."""
    return (Level if has_density(score) else ScoreLevel)(score, t, scale, condition)


def check_kernel(name: str, kernel: Any, score: Any) -> None:
    """Refuse a kernel that cannot move on this score, in one sentence."""
    if not isinstance(kernel, Kernel):
        raise TypeError(f"{name}: {kernel!r} is no kernel; pass one of langevin.samplers, for example SGLD(0.03).")
    if kernel.group > 1:
        raise ValueError(f"{name}: {type(kernel).__name__} moves chains in groups; take a kernel of single chains.")
    if kernel.requires is HasDensity and not has_density(score):
        raise ValueError(
            f"{name}: {type(kernel).__name__} accepts or rejects by a log density, and this score has none; "
            "take SGLD, or learn an energy."
        )


def move(key: Key, kernel: Any, level: Level | ScoreLevel, x, inner: int):
    """x after `inner` steps of a kernel at one level."""
    words, wrap = noise.words(jax.random.split(key, inner + 1))
    state = kernel.init(wrap(words[0]), x / level.scale, level)
    step = lambda state, word: (kernel.step(wrap(word), state, level)[0], None)
    if inner <= UNROLLED:
        for i in range(inner):
            state, _ = step(state, words[1 + i])
    else:
        state, _ = lax.scan(step, state, words[1:])
    return level.scale * state.position


def anneal(key: Key, kernel: Any, score: Callable, sigmas, start, *, steps: int = 5, denoise: bool = True):
    """Draws by a kernel on level after level, from start (n, …); at the end the noise left is taken off.

    kernel: any of the library; its step size is in units of a level, e.g. SGLD(step_rule(sigmas, steps)).
    score: (x, σ) → ∇log p_σ(x). sigmas: the levels, falling. steps: of the kernel, at every level.
    """
    sigmas = np.asarray(sigmas)
    if sigmas.ndim != 1 or not (np.diff(sigmas) < 0).all() or not (sigmas > 0).all():
        raise ValueError("anneal: sigmas must be positive and fall towards the data; sort them, largest first.")
    if steps < 1:
        raise ValueError(f"anneal: steps is {steps}; it must be 1 or more.")
    score = as_record(score)
    check_kernel("anneal", kernel, score)
    return _anneal(key, kernel, score, jnp.asarray(sigmas), start, steps=steps, denoise=denoise)


@partial(jax.jit, static_argnames=("steps", "denoise"))
def _anneal(key, kernel, score, sigmas, start, *, steps, denoise):
    words, wrap = noise.words(jax.random.split(key, (start.shape[0], sigmas.shape[0])))

    def one(x, words):
        def level(x, now):
            sigma, word = now
            return move(wrap(word), kernel, level_of(score, sigma, sigma), x, steps), None

        x, _ = lax.scan(level, x, (sigmas, words))
        return x + sigmas[-1] ** 2 * score(x, sigmas[-1]) if denoise else x

    return jax.vmap(one)(start, words)
