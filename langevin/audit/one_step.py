r"""One step seen from outside: the drift and the diffusion of a black box, and whether Γ is in it.

From a position x, over many steps with fresh noise,

    b̂(x) = E[x' − x] / h,      D̂(x) = Var[x'] / 2h,

on N(0, 1), where g(x) = −x. A kernel with the law p has b̂ = D̂ g + c D̂' with c = 1; the fitted c says what share of Γ
the kernel has, and its law is p D̂^{c−1} (c = 0: p/D̂). For constant D̂ the ratio of D̂ to the slope of b̂ in g is the
temperature it really has. The same noise is used at every x, so that D̂' is smooth. It needs a kernel without momentum.

References
----------
Rensmeyer & Niggemann (2024), On the convergence of locally adaptive and scalable diffusion-based sampling methods, §3.
Risken (1989), The Fokker-Planck equation, §5.2 (the stationary law in one dimension).
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from langevin.audit.trials import EDGES, N_BINS, Trial

GRID = np.linspace(-3.0, 3.0, 61)
REPEATS = 20_000


class Local(NamedTuple):
    """What one step does, over −3 to 3."""

    least: float  # of D̂
    most: float
    share: float  # c, of Γ
    slope: float  # of b̂ in g
    diffusion: float  # the mean of D̂ under p
    bins: np.ndarray  # of the law p D̂^{c−1}


def look_inside(key, kernel, trial: Trial, h: float) -> Local | None:
    """The local view of a kernel at step h on N(0, 1), or None if it has momentum."""
    k_init, k_step = jax.random.split(key)
    init = lambda k, x: kernel.init(k, x[None], trial.target)
    if kernel.group > 1 or jax.tree.leaves(jax.eval_shape(init, k_init, jnp.zeros(())).aux):
        return None

    @jax.jit
    def moments(k_init, k_steps, x):
        state = init(k_init, x)
        move = jax.vmap(lambda k: kernel.step(k, state, trial.target)[0].position[0] - x)(k_steps)
        return jnp.mean(move), jnp.var(move)

    with jax.debug_key_reuse(False):  # the same noise at every x, on purpose
        keys = jax.random.split(k_step, REPEATS)
        found = np.array([moments(k_init, keys, jnp.asarray(x, jnp.float32)) for x in GRID], np.float64)
    drift, diffusion, g = found[:, 0] / h, found[:, 1] / (2 * h), -GRID
    if not np.isfinite(found).all() or np.any(diffusion <= 0):
        return None
    p = np.exp(-0.5 * GRID**2)
    slope = float((p * g * drift).sum() / (p * g * g).sum())
    change = np.gradient(diffusion, GRID)
    share = float((p * change * (drift - diffusion * g)).sum() / max((p * change**2).sum(), 1e-12))
    fine = np.clip(EDGES, -4.5, 4.5)
    fine = np.concatenate([np.linspace(a, b, 20, endpoint=False) for a, b in pairwise(fine)])
    density = np.exp(-0.5 * fine**2) * np.interp(fine, GRID, diffusion) ** (share - 1.0)
    bins = density.reshape(N_BINS, -1).mean(1) * np.diff(np.clip(EDGES, -4.5, 4.5))
    return Local(
        diffusion.min(), diffusion.max(), share, slope, float(np.average(diffusion, weights=p)), bins / bins.sum()
    )
