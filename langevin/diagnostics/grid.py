r"""Likelihood of a model in the plane, exact: its normaliser by quadrature over a grid.

    log Z = log Σ_cells e^{f(c)} + log(cell area),      KL(data ‖ model) = −H(data) − E_data [f − log Z].

How well a model *is* the data and how well a sampler samples the *model* are two questions; samples drawn by the kernel
a model was trained with answer neither, for the energy takes up the kernel's bias. KL(sampler ‖ model) is that of a
histogram: Σ p̂ log(p̂/p) over coarse cells, less what it is on average when the n points are the model's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln, logsumexp

from langevin.targets.densities_2d import box as box_of
from langevin.targets.densities_2d import centres

BLOCK = 65_536  # cells evaluated together


class Grid(NamedTuple):
    """log p at the middles of the cells of a square, normalised over it.

    log_p: (cells, cells), x₁ along the rows.
    box: half the side.
    log_z: of the model over the square.
    """

    log_p: np.ndarray
    box: float
    log_z: float

    @property
    def area(self) -> float:
        return (2 * self.box / self.log_p.shape[0]) ** 2


def grid(log_density: Callable, box: float = 5.0, cells: int = 601) -> Grid:
    """A log density, of one point, on a grid; refused where it is not finite anywhere."""
    where = jnp.asarray(centres(box, cells), jnp.float32)
    value = jax.jit(lambda x: jax.lax.map(log_density, x, batch_size=BLOCK))(where)
    value = np.asarray(value, np.float64).reshape(cells, cells)
    if np.isnan(value).any() or not np.isfinite(value).any():
        raise ValueError("grid: the log density is NaN, or −∞ everywhere, on the square; look at the model.")
    log_z = float(logsumexp(value)) + 2 * math.log(2 * box / cells)
    return Grid(value - log_z, box, log_z)


def drawn(found: Grid, n: int, seed: int = 0) -> np.ndarray:
    """n independent draws (n, 2) of a model on a grid: exact but for the size of its cells."""
    draw, cells = np.random.default_rng(seed), found.log_p.shape[0]
    mass = np.exp(found.log_p).ravel()
    corner = np.stack(np.divmod(draw.choice(mass.size, n, p=mass / mass.sum()), cells), axis=1)
    return (corner + draw.random((n, 2))) * (2 * found.box / cells) - found.box


def entropy(density: Any, cells: int = 1201) -> float:
    """−E log p of a density in the plane, in nats."""
    found = grid(density.log_density, box_of(density), cells)
    mass = np.exp(found.log_p) * found.area
    return float(-np.sum(np.where(mass > 0, mass * np.where(mass > 0, found.log_p, 0.0), 0.0)))


def data_kl(density: Any, log_density: Callable, cells: int = 601) -> float:
    """KL(data ‖ model) in nats, over the density's own square, where the model is normalised."""
    side = box_of(density)
    truth, model = grid(density.log_density, side, cells), grid(log_density, side, cells)
    mass = np.exp(truth.log_p) * truth.area
    gap = np.where(mass > 0, np.where(mass > 0, truth.log_p, 0.0) - model.log_p, 0.0)
    return float(np.sum(mass * gap))


def outside(log_density: Callable, side: float, cells: int = 601) -> float:
    """The share of a model's mass that lies in a square of twice the side but not in the square."""
    near, far = grid(log_density, side, cells), grid(log_density, 2 * side, 2 * cells)
    return float(max(0.0, 1 - math.exp(near.log_z - far.log_z)))


def sample_kl(x, log_density: Callable, box: float, cells: int = 60) -> float:
    """KL(samples ‖ model) in nats over coarse cells, less what chance adds; points outside the square are left out."""
    fine = grid(log_density, box, 10 * cells)
    mass = (np.exp(fine.log_p) * fine.area).reshape(cells, 10, cells, 10).sum((1, 3))
    line = np.linspace(-box, box, cells + 1)
    count = np.histogram2d(np.asarray(x)[:, 0], np.asarray(x)[:, 1], bins=(line, line))[0]
    n = count.sum()
    if n == 0:
        raise ValueError(f"sample_kl: none of the points lies in [−{box}, {box}]²; is the sampler lost?")
    share = count / n
    full = share > 0
    kl = np.sum(share[full] * (np.log(share[full]) - np.log(np.maximum(mass[full], 1e-300))))
    return float(kl - (np.sum(_chance(n * mass)) - 0.5) / n)


def _chance(expected: np.ndarray) -> np.ndarray:
    """E c log(c/λ) of a Poisson count c of mean λ: near ½ where counts are large, −λ log λ where they are rare."""
    count = np.arange(1, 400)
    few = np.exp(np.linspace(np.log(1e-12), np.log(100.0), 1500))
    log_p = count[None] * np.log(few[:, None]) - few[:, None] - gammaln(count + 1)[None]
    value = np.sum(np.exp(log_p) * count[None] * (np.log(count)[None] - np.log(few[:, None])), axis=1)
    at = np.interp(np.log(np.clip(expected, 1e-12, 100.0)), np.log(few), value)
    return np.where(expected > 100.0, 0.5 + 1 / (12 * np.maximum(expected, 1.0)), at)
