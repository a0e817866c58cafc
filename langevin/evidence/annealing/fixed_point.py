r"""Numbers in fixed point, and a division of integers by a fraction that can be undone.

x is held as the integer round(2^F x). A velocity w is multiplied by γ = n/d with the information that is lost kept in a
buffer word u of each coordinate, by a bijection of (w, u), all divisions rounded down:

    forward    r = w mod d;  u ← u d + r;  w ← (w − r)/d · n + u mod n;  u ← u div n
    backward   l = w mod n;  u ← u n + l;  w ← (w − l)/n · d + u mod d;  u ← u div d

u grows as (d/n)^s with the number of steps s.

References
----------
Maclaurin, Duvenaud & Adams (2015), Gradient-based hyperparameter optimization through reversible learning, algorithm 3.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from langevin.core.types import PyTree, Scalar

DENOMINATOR = 100  # the largest tried: one more digit of γ costs one digit of the gradient
BITS = {4: 24, 8: 44}  # F by the bytes of a number, as all of these
FLOAT, INT, WORD = ({4: f"{kind}32", 8: f"{kind}64"} for kind in ("float", "int", "uint"))


def to_fraction(gamma: Any) -> tuple[int, int]:
    """(n, d) of the fraction nearest to γ with d ≤ 100."""
    try:
        gamma = float(gamma)
    except jax.errors.ConcretizationTypeError:
        raise ValueError(
            "reversible: gamma is traced here, so its fraction is unknown; say it with Reversible(fraction=(9, 10))."
        ) from None
    nearest = Fraction(gamma).limit_denominator(DENOMINATOR)
    if abs(nearest - gamma) > 0.1 * (1 - gamma):
        raise ValueError(
            f"reversible: no fraction with a denominator up to {DENOMINATOR} is near gamma = {gamma:.6g}; "
            "say one with Reversible(fraction=(999, 1000)), or take a smaller gamma."
        )
    return nearest.numerator, nearest.denominator


def segment(n: int, d: int, width: int) -> int:
    """For how many steps a word of that many bits holds u, whatever the digits."""
    u = steps = 0
    while u * d + d - 1 < 2**width and steps < 4096:
        u, steps = (u * d + d - 1) // n, steps + 1
    return steps


def shrink(w: PyTree, u: PyTree, n: int, d: int) -> tuple[PyTree, PyTree]:
    """(w, u) → (about w n/d, u with what was lost). Its inverse is `shrink` with n and d exchanged."""
    r = jax.tree.map(lambda w: jnp.remainder(w, d), w)
    u = jax.tree.map(lambda u, r: u * d + r.astype(u.dtype), u, r)
    w = jax.tree.map(lambda w, r, u: lax.div(w - r, jnp.asarray(d, w.dtype)) * n + (u % n).astype(w.dtype), w, r, u)
    return w, jax.tree.map(lambda u: u // n, u)


def to_fixed(bits: int | None, x: PyTree) -> PyTree:
    """Integers of a tree of real numbers; bits: F, None for the usual."""
    nearest = partial(lax.round, rounding_method=lax.RoundingMethod.TO_NEAREST_EVEN)
    return jax.tree.map(lambda u: nearest(u * _unit(bits, u)).astype(INT[u.dtype.itemsize]), x)


def to_real(bits: int | None, x: PyTree) -> PyTree:
    """The real numbers of a tree of integers."""
    return jax.tree.map(lambda u: u.astype(FLOAT[u.dtype.itemsize]) * (1 / _unit(bits, u)), x)


def _unit(bits, u) -> float:
    return 2.0 ** (bits or BITS[u.dtype.itemsize])


def in_range(bits: int | None, peak: PyTree) -> Scalar:
    """Whether all numbers stayed in the range of the integers, less a thousandth; NaN did not."""
    limit = lambda u: (1 - 2.0**-10) * 2.0 ** (8 * u.dtype.itemsize - 1) / _unit(bits, u)
    return all_true(jax.tree.map(lambda u: u < limit(u), peak))


def all_true(x: PyTree) -> Scalar:
    """Whether every number of a tree is true."""
    return jnp.all(jnp.stack([jnp.all(u) for u in jax.tree.leaves(x)]))
