r"""Denoising score matching in continuous time, for `Loss`; and images made ready for it.

    E_t E λ(t) |s_θ(x_t, t) + ε/s_t|² / d,      x_t = m_t x₀ + s_t ε,

    "sample"      λ = s²: the noise is predicted evenly well; best samples
    "likelihood"  λ = g²/q(t), q the density of training times: d/2 times the mean loss, plus the prior's part, bounds
                  −log p in nats, up to a constant
    "edm"         λ makes the target of the preconditioned network have unit variance: 1/c_out² of |x̂₀ − x₀|²

Times are stratified over the mini-batch. With labels, rows are (x, label), and a share `drop` of the labels is replaced
by `null`, so that one network learns both scores that classifier-free guidance needs.

References
----------
Song, Sohl-Dickstein, Kingma, Kumar, Ermon & Poole (2021), Score-based generative modeling through SDEs, eq. (7).
Song, Durkan, Murray & Ermon (2021), Maximum likelihood training of score-based diffusion models, thm. 1, eq. (7).
Karras, Aittala, Aila & Laine (2022), Elucidating the design space of diffusion-based generative models, eq. (8).
Ho & Salimans (2022), Classifier-free diffusion guidance, alg. 1.
"""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core.record import nonnegative, positive, record, static
from langevin.core.types import Key, PyTree
from langevin.diffusion.denoiser import PARAMETERISATIONS, Denoiser, Parameterisation, convert
from langevin.diffusion.times import check_choice

Weighting = Literal["sample", "likelihood", "edm"]
WEIGHTINGS = ("sample", "likelihood", "edm")


@record
class DSM:
    """The loss of a diffusion network: (key, position, rows) → one number a row.

    process: the forward diffusion.
    program: the network without its arrays, called as net(x, clock) or net(x, clock, label).
    parameterisation: what the network says: score, noise, data, velocity, edm or energy.
    weighting: "sample", "likelihood" or "edm".
    data_scale: σ_d of "edm", the standard deviation of the data.
    drop: the share of labels replaced by `null`.
    null: the label that means none.
    """

    process: Any
    program: Any = static()
    parameterisation: Parameterisation = static(default="noise")
    weighting: Weighting = static(default="sample")
    data_scale: float = positive(default=0.5)
    drop: float = nonnegative(default=0.1)
    null: int | None = static(default=None)

    def __post_init__(self):
        check_choice("DSM", "weighting", self.weighting, WEIGHTINGS)
        check_choice("DSM", "parameterisation", self.parameterisation, PARAMETERISATIONS)

    def denoiser(self, position: PyTree) -> Denoiser:
        """The network with these arrays, as a score."""
        return Denoiser(self.process, self.program, position, self.parameterisation, self.data_scale)

    def __call__(self, key: Key, position: PyTree, rows) -> jax.Array:
        k_time, k_noise, k_drop = jax.random.split(key, 3)
        x, *label = rows if isinstance(rows, (tuple, list)) else (rows,)
        n = x.shape[0]
        t = self.process.drawn(stratified(k_time, n))
        e = jax.random.normal(k_noise, x.shape, x.dtype)
        if label and self.null is not None:
            dropped = jax.random.uniform(k_drop, (n,)) < self.drop
            label = [jnp.where(dropped, self.null, label[0])]
        denoiser = self.denoiser(position)

        def one(x, e, t, *label):
            m, s = self.process.marginal(t)
            value, form = denoiser.said(m * x + s * e, t, *label)
            return self._weight(t, m, s) * self._error(value, form, x, e, (m, s))

        return jax.vmap(one)(x, e, t, *label)

    def _error(self, value, form, x, e, marginal):
        """|noise error|²/d, from the data where that is what is said: a difference of large numbers otherwise."""
        m, s = marginal
        if form == "data":
            return (m / s) ** 2 * jnp.mean((value - x) ** 2)
        return jnp.mean((convert(value, m * x + s * e, marginal, form, "noise") - e) ** 2)

    def _weight(self, t, m, s):
        """λ s⁻², the weight of an error of the noise."""
        if self.weighting == "sample":
            return jnp.ones_like(s)
        if self.weighting == "likelihood":
            return (self.process.diffusion(t) / s) ** 2 / self.process.density(t)
        sigma = s / m  # an error of the data is σ times one of the noise
        return (sigma**2 + self.data_scale**2) / self.data_scale**2


def stratified(key: Key, n: int) -> jax.Array:
    """n numbers uniform on (0, 1), one in each of n equal parts, in random order of the parts."""
    k_shift, k_order = jax.random.split(key)
    u = (jax.random.permutation(k_order, jnp.arange(n)) + jax.random.uniform(k_shift, (n,))) / n
    return jnp.clip(u, 1e-6, 1 - 1e-6)


# --- images -----------------------------------------------------------------------------------------------------------


def ready(images, *, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    """Images (n, channel, height, width) with pixels in [low, high], put to [−1, 1]; anything else is refused."""
    x = np.asarray(images, np.float32)
    if x.ndim != 4 or x.size == 0:
        raise ValueError(f"ready: images have shape {x.shape}; pass (n, channel, height, width).")
    bad = ~np.isfinite(x)
    if bad.any():
        first = int(np.flatnonzero(bad.reshape(len(x), -1).any(1))[0])
        raise ValueError(
            f"ready: image {first} has pixels that are not finite ({bad.sum()} in all); drop or mend them."
        )
    if x.min() < low or x.max() > high:
        raise ValueError(
            f"ready: pixels are between {x.min():g} and {x.max():g}, outside [{low:g}, {high:g}]; scale them, or say "
            "low= and high=."
        )
    return 2 * (x - low) / (high - low) - 1


def dequantised(key: Key, images, levels: int = 256) -> jax.Array:
    """Images in [−1, 1] of `levels` grey values, each spread over its bin (see `bits_per_dim`)."""
    if levels < 2:
        raise ValueError(f"dequantised: levels is {levels}; it must be 2 or more.")
    x = jnp.asarray(images)
    whole = jnp.round(0.5 * (x + 1) * (levels - 1))
    return 2 * (whole + jax.random.uniform(key, x.shape, x.dtype)) / levels - 1


def quantised(x, levels: int = 256) -> np.ndarray:
    """Back from `dequantised`: the grey value in [−1, 1] whose bin x is in; beyond the range, the nearest."""
    whole = np.clip(np.floor(0.5 * (np.asarray(x) + 1) * levels), 0, levels - 1)
    return 2 * whole / (levels - 1) - 1
