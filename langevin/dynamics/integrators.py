r"""Palindromic integrators for H = −log p(θ) + ½ pᵀM⁻¹p, as coefficient tuples.

A step of size h applies kicks p ← p + b_i h ∇log p and drifts θ ← θ + a_i h M⁻¹p in the order b₁ a₁ b₂ a₂ … b_k, a
palindrome, hence reversible and volume-preserving: exact after a Metropolis step. The last gradient of a step is
the first of the next, so a step costs k − 1 gradients.

References
----------
Omelyan, Mryglod & Folk (2003), Symplectic analytically integrable decomposition algorithms, the 11-stage scheme.
McLachlan (1995), On the numerical integration of ordinary differential equations by symmetric composition methods, §5.
Yoshida (1990), Construction of higher order symplectic integrators, eq. (2.11).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax

from langevin.core import tree
from langevin.core.types import Eval, PyTree, Scalar


class Coefficients(NamedTuple):
    """kicks b₁…b_k and drifts a₁…a_{k−1}; both sum to 1."""

    kicks: tuple[float, ...]
    drifts: tuple[float, ...]

    @property
    def n_grad(self) -> int:
        return len(self.drifts)


_cube = 2.0 ** (1 / 3)
_outer, _inner = 1 / (2 - _cube), -_cube / (2 - _cube)
_xi = 0.1931833275037836
_b1, _b2, _a1, _a2 = 0.08398315262876693, 0.6822365335719091, 0.2539785108410595, -0.03230286765269967

INTEGRATORS: dict[str, Coefficients] = {
    "verlet": Coefficients((0.5, 0.5), (1.0,)),
    "mclachlan": Coefficients((_xi, 1 - 2 * _xi, _xi), (0.5, 0.5)),
    "omelyan": Coefficients(
        (_b1, _b2, 0.5 - _b1 - _b2, 0.5 - _b1 - _b2, _b2, _b1), (_a1, _a2, 1 - 2 * (_a1 + _a2), _a2, _a1)
    ),
    "yoshida": Coefficients(
        (_outer / 2, (_outer + _inner) / 2, (_outer + _inner) / 2, _outer / 2), (_outer, _inner, _outer)
    ),
}


class Phase(NamedTuple):
    """A point of the flow: position, momentum, and the target at the position."""

    position: PyTree
    momentum: PyTree
    eval: Eval


def integrate(
    coefficients: Coefficients,
    evaluate: Callable[[PyTree], Eval],
    velocity: Callable[[PyTree], PyTree],
    phase: Phase,
    step_size: Scalar,
    n: int,
) -> Phase:
    """n steps of the palindromic integrator."""

    def one(phase: Phase, _):
        position, momentum, evaluation = phase
        for b, a in zip(coefficients.kicks, coefficients.drifts, strict=False):
            momentum = tree.axpy(b * step_size, evaluation.grad, momentum)
            position = tree.axpy(a * step_size, velocity(momentum), position)
            evaluation = evaluate(position)
        momentum = tree.axpy(coefficients.kicks[-1] * step_size, evaluation.grad, momentum)
        return Phase(position, momentum, evaluation), None

    return jax.lax.scan(one, phase, length=n)[0] if n > 1 else one(phase, None)[0]
