r"""Densities in the plane whose draws and values are both exact, for models that learn them.

`densities_2d()` has them all; each is a target with `exact(key, n)`, a normalised `log_density`, a `box` that holds all
but 1e-6 of its mass, and `entropy(density)`, by quadrature over the box.

    rings         equal shares of N(|x|; r_k, w²)/(2π|x|)
    eight         eight Gaussians on a circle of radius 2, width .2
    grid          25 Gaussians, spacing 2
    unequal       four Gaussians of shares .4, .3, .2, .1 and unequal widths
    banana, gaussian, funnel    of the zoo
    pinwheel      five Gaussian arms, turned by an angle that grows with |x|: a map of unit Jacobian
    checkerboard  uniform on the eight black cells of a 4 × 4 board
    moons, spiral a point of a curve, uniform in its parameter, plus N(0, w²): a mixture by quadrature
    laplace       two independent Laplace coordinates
    dual_moon     −½((|x| − 2)/.4)² + log(e^{−½((x₁−2)/.6)²} + e^{−½((x₁+2)/.6)²}); its normaliser by quadrature, its
                  draws by inverting a fine grid's distribution function
    wave          −½((x₂ − sin(πx₁/2))/.4)² in |x₁| < 4

References
----------
Nijkamp, Hill, Han, Zhu & Wu (2020), On the anatomy of MCMC-based maximum likelihood learning of energy-based models.
Rezende & Mohamed (2015), Variational inference with normalizing flows, tab. 1 (dual moon, waves).
Johnson, Duvenaud, Wiltschko, Datta & Adams (2016), Composing graphical models with neural networks (the pinwheel).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from langevin.core.record import positive, record, static
from langevin.core.target import Exact
from langevin.targets.zoo import Banana, Funnel, Gaussian, Mixture

LOG_2PI = math.log(2 * math.pi)


def _field(values) -> Any:
    return dataclasses.field(default_factory=lambda: jnp.asarray(values, float))


@record
class EqualRings(Exact):
    """Rings of equal mass; the radius of each is N(r_k, width²).

    radii: r_k; they should be some widths away from 0.
    width: of a ring.
    """

    radii: Any = _field([1.0, 2.0])
    width: Any = positive(default=0.15)
    box = 5.0

    def log_density(self, position):
        square = jnp.sum(position**2)
        away = square > 1e-12
        r = jnp.where(away, jnp.sqrt(jnp.where(away, square, 1.0)), 1e-6)  # no NaN gradient at the centre
        each = -0.5 * ((r - self.radii) / self.width) ** 2 - jnp.log(self.width) - 0.5 * LOG_2PI
        return logsumexp(each) - math.log(self.radii.shape[0]) - LOG_2PI - jnp.log(r)

    def exact(self, key, n: int):
        k_which, k_radius, k_angle = jax.random.split(key, 3)
        ring = self.radii[jax.random.randint(k_which, (n,), 0, self.radii.shape[0])]
        angle = jax.random.uniform(k_angle, (n,), maxval=2 * math.pi)
        r = ring + self.width * jax.random.normal(k_radius, (n,))
        return r[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)


@record
class Pinwheel(Exact):
    """Gaussian arms around a circle, each turned by rate · |x|.

    arms: how many.
    radial: the width of an arm along its radius.
    tangent: the width across.
    rate: radians a unit of radius.
    """

    arms: int = static(default=5)
    radial: Any = positive(default=0.3)
    tangent: Any = positive(default=0.1)
    rate: Any = 0.8
    box = 5.0

    def _mixture(self) -> Mixture:
        return Mixture(jnp.ones(1), jnp.array([[1.5, 0.0]]), jnp.stack([self.radial, self.tangent])[None])

    def log_density(self, position):
        angle = -self.rate * jnp.sqrt(jnp.sum(position**2) + 1e-12)
        turns = angle - 2 * math.pi * jnp.arange(self.arms) / self.arms
        each = jax.vmap(lambda a: self._mixture().log_density(_turned(a, position)))(turns)
        return logsumexp(each) - math.log(self.arms)

    def exact(self, key, n: int):
        k_arm, k_draw = jax.random.split(key)
        x = self._mixture().exact(k_draw, n)
        arm = 2 * math.pi * jax.random.randint(k_arm, (n,), 0, self.arms) / self.arms
        return jax.vmap(_turned)(arm + self.rate * jnp.linalg.norm(x, axis=1), x)


def _turned(angle, x):
    c, s = jnp.cos(angle), jnp.sin(angle)
    return jnp.stack([c * x[0] - s * x[1], s * x[0] + c * x[1]])


@record
class Checkerboard(Exact):
    """Uniform on the black cells of a board [−2 side, 2 side]².

    side: of a cell.
    """

    side: Any = positive(default=1.0)
    box = 2.5

    def log_density(self, position):
        cell = jnp.floor(position / self.side)
        inside = jnp.all(jnp.abs(position) < 2 * self.side) & (jnp.mod(jnp.sum(cell), 2) == 0)
        return jnp.where(inside, -jnp.log(8 * self.side**2), -jnp.inf)

    def exact(self, key, n: int):
        k_cell, k_place = jax.random.split(key)
        index = jax.random.randint(k_cell, (n,), 0, 8)
        row = index // 2
        column = 2 * (index % 2) + row % 2
        corner = jnp.stack([row, column], axis=1) - 2
        return self.side * (corner + jax.random.uniform(k_place, (n, 2)))


@record
class Curve(Exact):
    """A point of a curve, uniform in its parameter, plus N(0, width²).

    points: (k, 2) of the curve at equal steps of the parameter, close against `width`: the law is their mixture.
    width: of the noise.
    """

    points: Any
    width: Any = positive(default=0.1)
    box = 5.0

    def log_density(self, position):
        each = -0.5 * jnp.sum((position[None] - self.points) ** 2, axis=1) / self.width**2
        return logsumexp(each) - 2 * jnp.log(self.width) - LOG_2PI - math.log(self.points.shape[0])

    def exact(self, key, n: int):
        k_which, k_noise = jax.random.split(key)
        which = jax.random.randint(k_which, (n,), 0, self.points.shape[0])
        return self.points[which] + self.width * jax.random.normal(k_noise, (n, 2))


def moons(k: int = 400) -> Curve:
    t = math.pi * (np.arange(k // 2) + 0.5) / (k // 2)
    upper = np.stack([np.cos(t) - 0.5, np.sin(t) - 0.25], axis=1)
    return Curve(1.5 * np.concatenate([upper, -upper]).astype(np.float32))


def spiral(k: int = 600) -> Curve:
    t = np.sqrt((np.arange(k) + 0.5) / k) * 3 * math.pi  # equal steps of t²: nearly of arc length
    return Curve((t[:, None] * np.stack([np.cos(t), np.sin(t)], axis=1) / 3.5).astype(np.float32))


@record
class LaplacePair(Exact):
    """Two independent Laplace coordinates.

    scale: b of e^{−|x|/b}/2b.
    """

    scale: Any = positive(default=0.7)
    box = 12.0

    def log_density(self, position):
        return -jnp.sum(jnp.abs(position)) / self.scale - 2 * jnp.log(2 * self.scale)

    def exact(self, key, n: int):
        return self.scale * jax.random.laplace(key, (n, 2))


@record
class Gridded(Exact):
    """A log density without normaliser, normalised over its box by quadrature; draws are exact to a cell of it.

    fn: position → log density, up to a constant; a module-level function.
    box: half the side of its box.
    cells: along a side.
    shift: log of its integral, found when it is built.
    """

    fn: Any = static()
    box: float = static(default=5.0)
    cells: int = static(default=601)
    shift: Any = dataclasses.field(default=None, init=False)

    def __post_init__(self):
        masses = np.asarray(jax.jit(self._masses)(), np.float64)
        total = masses.max() + np.log(np.sum(np.exp(masses - masses.max())))
        object.__setattr__(self, "shift", jnp.float32(total + 2 * math.log(2 * self.box / self.cells)))

    def _masses(self):
        return jax.vmap(self.fn)(jnp.asarray(centres(self.box, self.cells), jnp.float32))

    def log_density(self, position):
        return self.fn(position) - self.shift

    def exact(self, key, n: int):
        k_cell, k_place = jax.random.split(key)
        mass = self._masses()
        below = jnp.cumsum(jnp.exp(mass - jnp.max(mass)))
        cell = jnp.searchsorted(below, jax.random.uniform(k_cell, (n,), maxval=below[-1]))
        step = 2 * self.box / self.cells
        corner = jnp.stack([cell // self.cells, cell % self.cells], axis=1) * step - self.box
        return corner + step * jax.random.uniform(k_place, (n, 2))


def dual_moon(x):
    radius = jnp.sqrt(jnp.sum(x**2) + 1e-12)
    sides = jnp.logaddexp(-0.5 * ((x[0] - 2) / 0.6) ** 2, -0.5 * ((x[0] + 2) / 0.6) ** 2)
    return -0.5 * ((radius - 2) / 0.4) ** 2 + sides


def wave(x):
    inside = jnp.abs(x[0]) < 4
    return jnp.where(inside, -0.5 * ((x[1] - jnp.sin(0.5 * math.pi * x[0])) / 0.4) ** 2, -jnp.inf)


def centres(box: float, cells: int) -> np.ndarray:
    """(cells², 2): the middles of square cells of [−box, box]², x₁ slowest."""
    line = box * (2 * (np.arange(cells) + 0.5) / cells - 1)
    return np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)


def densities_2d() -> dict[str, Any]:
    """Every density by name."""
    angle = 2 * math.pi * np.arange(8) / 8
    circle = 2 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    corners = np.array([[1.5, 1.5], [-1.5, 1.5], [-1.5, -1.5], [1.5, -1.5]])
    widths = np.array([[0.3, 0.3], [0.2, 0.5], [0.5, 0.2], [0.15, 0.15]])
    correlated = Gaussian(np.zeros(2), np.array([[1.328, 0.938], [0.938, 1.25]]))
    return {
        "rings": EqualRings(),
        "eight": Mixture(np.ones(8), circle, np.full((8, 2), 0.2)),
        "grid": Mixture.grid(),
        "unequal": Mixture(np.array([0.4, 0.3, 0.2, 0.1]), corners, widths),
        "banana": Banana(curvature=0.5, scale=1.0),
        "gaussian": correlated,
        "funnel": Funnel(d=2, scale=1.0),
        "pinwheel": Pinwheel(),
        "checkerboard": Checkerboard(),
        "moons": moons(),
        "spiral": spiral(),
        "laplace": LaplacePair(),
        "dual_moon": Gridded(dual_moon),
        "wave": Gridded(wave),
    }


@runtime_checkable
class HasBox(Protocol):
    """Knows half the side of a square that holds nearly all of its mass."""

    @property
    def box(self) -> float: ...


def box(density: Any) -> float:
    """Half the side of a square that holds all but about 1e-6 of the mass."""
    if isinstance(density, HasBox):
        return float(density.box)
    return {Mixture: 6.0, Banana: 14.0, Gaussian: 7.0, Funnel: 40.0}[type(density)]
