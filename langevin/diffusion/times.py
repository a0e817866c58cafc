r"""The times at which samplers look: from `end` down to `cut`, N + 1 of them.

    "uniform"     t_i = end + (i/N) (cut − end)
    "quadratic"   √t in equal steps, finer near the data
    "rho"         σ^{1/ρ} in equal steps, σ = s/m the noise-to-signal ratio (ρ = 7)
    "snr"         ln σ in equal steps

The last two are laid out in σ, so they need a diffusion that has `ratio` and `time`. "natural" is the one that a
diffusion is best run in: uniform where time is on [0, 1], "rho" where it is the noise.

References
----------
Karras, Aittala, Aila & Laine (2022), Elucidating the design space of diffusion-based generative models, eq. (5).
Lu, Zhou, Bao, Chen, Li & Zhu (2022), DPM-Solver++, §4 (equal steps in λ = −ln σ).
"""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

Spacing = Literal["natural", "uniform", "quadratic", "rho", "snr"]
SPACINGS = ("natural", "uniform", "quadratic", "rho", "snr")
RHO = 7.0


def times(process: Any, steps: int, spacing: Spacing = "uniform", rho: Any = RHO) -> jax.Array:
    """t_0 = end > … > t_steps = cut."""
    check_steps("times", steps)
    check_spacing("times", spacing)
    spacing = process.natural if spacing == "natural" else spacing
    share = jnp.arange(steps + 1) / steps
    end, cut = process.end * jnp.ones(()), process.cut * jnp.ones(())
    if spacing == "uniform":
        t = end + share * (cut - end)
    elif spacing == "quadratic":
        t = (jnp.sqrt(end) + share * (jnp.sqrt(cut) - jnp.sqrt(end))) ** 2
    else:
        high, low = process.ratio(end), process.ratio(cut)
        if spacing == "rho":
            ratio = (high ** (1 / rho) + share * (low ** (1 / rho) - high ** (1 / rho))) ** rho
        else:
            ratio = jnp.exp(jnp.log(high) + share * (jnp.log(low) - jnp.log(high)))
        t = process.time(ratio)
    # the ends exactly, whatever rounding did
    return t.at[0].set(end).at[-1].set(cut)


def checked(process: Any, given: Any) -> jax.Array:
    """A user's own times, refused if they do not lead from the noise down to the data."""
    t = np.asarray(given, np.float64)
    if t.ndim != 1 or t.size < 2 or not np.isfinite(t).all():
        raise ValueError(f"times: expected a list of at least two finite numbers; got shape {t.shape}.")
    if not (np.diff(t) < 0).all() or t[-1] <= 0:
        raise ValueError("times: they must fall from the noise to the data and stay above 0; sort them, largest first.")
    if t[0] < 0.99 * float(process.end):
        raise ValueError(f"times: they begin at {t[0]:g}, but the noise is at {float(process.end):g}; begin there.")
    if t[-1] > 2 * float(process.cut):
        raise ValueError(
            f"times: they end at {t[-1]:g}, where noise is left; end at the data, {float(process.cut):g} or below."
        )
    return jnp.asarray(t, jnp.result_type(float))


def check_steps(name: str, steps: int) -> None:
    if not isinstance(steps, (int, np.integer)) or steps < 1:
        raise ValueError(f"{name}: steps is {steps!r}; it must be a whole number, 1 or more.")


def check_spacing(name: str, spacing: str) -> None:
    if spacing not in SPACINGS:
        raise ValueError(f"{name}: spacing is {spacing!r}; it must be one of {', '.join(SPACINGS)}.")


def check_choice(name: str, field: str, value: Any, choices: tuple) -> None:
    """One sentence for a name that is not one of the choices."""
    if value not in choices:
        raise ValueError(f"{name}: {field} is {value!r}; it must be one of {', '.join(map(repr, choices))}.")
