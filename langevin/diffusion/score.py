r"""Score matching: networks s(x) ≈ ∇log p(x), or energies E with s = −∇E, learned from data alone.

Objectives, for `Loss`; all have the same minimiser, but `Denoising`, whose is the score of p blurred by N(0, σ²):

    ScoreMatching   E[tr ∇s + ½|s|²]
    Sliced          E[vᵀ∇s v + ½(vᵀs)²], or with ½|s|² in place of the square (`reduced`, less variance); E vvᵀ = I;
                    one Jacobian-vector product a slice
    Denoising       ½ E|s(x + σε) + ε/σ|²
    NCSN            the mean over levels σ_i of σ_i² · Denoising, s(x, σ) = net(x)/σ

A network is a position (its arrays) and a program (the rest): `eqx.partition(net, eqx.is_inexact_array)`; a program may
also be a function (position, x) → value. A score at one noise level is a Target (`Level`), so every kernel of the
library moves on it; it is laid out in units of the noise, z = x/σ, where one step size fits all levels. Annealed
Langevin is SGLD on the levels one after the other: its α_i = ε₀ σ_i²/σ_L² is the step size ε₀/σ_L² in these units.

References
----------
Hyvärinen (2005), Estimation of non-normalized statistical models by score matching, thm. 1.
Song, Garg, Shi & Ermon (2019), Sliced score matching, eq. (7)-(8).
Vincent (2011), A connection between score matching and denoising autoencoders, eq. (9).
Song & Ermon (2019), Generative modeling by estimating gradients of the data distribution, eq. (5)-(6), alg. 1.
Song & Ermon (2020), Improved techniques for training score-based generative models, §3.3;
    its rules for levels and step size are in `diffusion.levels`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from langevin.core import noise
from langevin.core.record import positive, record, static
from langevin.core.types import Key, PyTree, Scalar

Of = Literal["score", "energy"]


def applied(program: Any, position: PyTree, *args) -> Any:
    """A network of its two halves, called; or a function of a position, called."""
    if isinstance(program, eqx.Module):
        return eqx.combine(position, program)(*args)
    return program(position, *args)


def score_of(program: Any, position: PyTree, of: Of, x, *args) -> jax.Array:
    """s(x): what the network says, or minus the gradient of the energy it says."""
    if of == "score":
        return applied(program, position, x, *args)
    return -jax.grad(lambda x: jnp.reshape(applied(program, position, x, *args), ()))(x)


class Objective:
    """Abstract: a loss of rows (n, …), one number a row; a subclass gives `one` of a single row."""

    of: str

    def __post_init__(self):
        if self.of not in ("score", "energy"):
            raise ValueError(f"{type(self).__name__}: of is {self.of!r}; it must be 'score' or 'energy'.")

    def one(self, key: Key, score: Callable, x) -> Scalar:
        raise NotImplementedError

    def __call__(self, key: Key, position: PyTree, rows) -> jax.Array:
        words, wrap = noise.words(jax.random.split(key, rows.shape[0]))
        score = partial(score_of, self.program, position, self.of)  # type: ignore[attr-defined]
        return jax.vmap(lambda word, x: self.one(wrap(word), score, x))(words, rows)


@record
class ScoreMatching(Objective):
    """Exact score matching: the whole divergence, d derivatives an example.

    program: the network without its arrays, or a function (position, x).
    of: whether the network is a "score" or an "energy".
    """

    program: Any = static()
    of: Of = static(default="score")

    def one(self, key, score, x):
        along = lambda v: jnp.sum(v * jax.jvp(score, (x,), (v,))[1])
        trace = jnp.sum(jax.vmap(along)(jnp.eye(x.size, dtype=x.dtype).reshape(x.size, *x.shape)))
        return trace + 0.5 * jnp.sum(score(x) ** 2)


@record
class Sliced(Objective):
    """Sliced score matching: the divergence along random directions.

    program: the network without its arrays, or a function (position, x).
    of: whether the network is a "score" or an "energy".
    slices: directions an example.
    reduced: whether ½|s|² takes the place of ½(vᵀs)².
    directions: "rademacher" or "normal".
    """

    program: Any = static()
    of: Of = static(default="score")
    slices: int = static(default=1)
    reduced: bool = static(default=True)
    directions: noise.Noise = static(default="rademacher")

    def __post_init__(self):
        Objective.__post_init__(self)
        if self.slices < 1:
            raise ValueError(f"Sliced: slices is {self.slices}; it must be 1 or more.")
        if self.directions not in noise.DRAWS:
            raise ValueError(f"Sliced: directions is {self.directions!r}; it must be 'normal' or 'rademacher'.")

    def one(self, key, score, x):
        v = noise.like(key, jnp.broadcast_to(x, (self.slices, *x.shape)), self.directions)

        def slice_(v):
            s, turned = jax.jvp(score, (x,), (v,))
            square = jnp.sum(s**2) if self.reduced else jnp.sum(v * s) ** 2
            return jnp.sum(v * turned) + 0.5 * square

        return jnp.mean(jax.vmap(slice_)(v))


@record
class Denoising(Objective):
    """Denoising score matching at one noise level.

    program: the network without its arrays, or a function (position, x).
    of: whether the network is a "score" or an "energy".
    sigma: the noise; what is learned is the score of the data blurred by it.
    """

    program: Any = static()
    of: Of = static(default="score")
    sigma: float = positive(default=0.1)

    def one(self, key, score, x):
        e = noise.like(key, x)
        return 0.5 * jnp.sum((score(x + self.sigma * e) + e / self.sigma) ** 2)


@record
class NCSN(Objective):
    """Denoising over geometric levels, a level an example, with weight σ².

    program: the network without its arrays, or a function (position, x).
    of: whether the network is a "score" or an "energy".
    sigmas: the levels, falling.
    conditional: whether the network is also shown σ: net(x, σ).
    """

    program: Any = static()
    of: Of = static(default="score")
    sigmas: Any = None
    conditional: bool = static(default=False)

    def __call__(self, key, position, rows):
        k_level, k_noise = jax.random.split(key)
        # every level as often as every other, and which row has which is left to chance
        level = jax.random.permutation(k_level, jnp.arange(rows.shape[0]) % self.sigmas.shape[0])
        e = noise.like(k_noise, rows)
        score = NoiseScore(self.program, position, self.of, self.conditional)

        def one(x, e, sigma):
            return 0.5 * jnp.sum((sigma * score(x + sigma * e, sigma) + e) ** 2)

        return jax.vmap(one)(rows, e, self.sigmas[level])


@record
class NoiseScore:
    """A trained network as a score (x, σ): net(x)/σ, or net(x, σ)/σ.

    program: the network without its arrays, or a function (position, x).
    position: its arrays.
    of: whether the network is a "score" or an "energy".
    conditional: whether it is shown σ.
    """

    program: Any = static()
    position: Any = None
    of: Of = static(default="score")
    conditional: bool = static(default=False)

    @property
    def conservative(self) -> bool:
        return self.of == "energy"

    def log_density(self, x, sigma):
        """−E/σ, up to a constant; for an energy only."""
        more = (sigma,) if self.conditional else ()
        return -jnp.reshape(applied(self.program, self.position, x, *more), ()) / sigma

    def __call__(self, x, sigma):
        more = (sigma,) if self.conditional else ()
        return score_of(self.program, self.position, self.of, x, *more) / sigma
