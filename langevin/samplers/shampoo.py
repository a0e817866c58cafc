r"""Langevin dynamics in the Shampoo metric, as published and with the missing Γ.

    θ' = θ + h (D ĝ + T Γ) + √(2Th) √D ξ,      D = ⊗_i (H_i + ε)^{−1/(2k)},      H_i = β H_i + (1 − β) M_i M_iᵀ,

for a leaf of k axes with unfoldings M_i of its gradient. As published (β = 0.99, roots every 100 steps) Γ is
dropped; on N(0, 1) the law is |θ| p. With β = 0, roots every step and a correction (default `fixman`) it is
p^(1/T). End-point noise (`hk2`) is wrong for this metric, for D is not diagonal. `dynamics.riemann` has the derivation
of every correction.

References
----------
Yu, Hartmann, Williams & Klami (2023), Scalable stochastic gradient Riemannian Langevin dynamics in non-diagonal
    metrics, §3.
Gupta, Koren & Singer (2018), Shampoo: preconditioned stochastic tensor optimization, alg. 2.
Rensmeyer & Niggemann (2024), On the convergence of locally adaptive and scalable diffusion-based sampling methods, §3.
"""

from __future__ import annotations

from langevin.core.kernel import audited, kernel
from langevin.core.record import positive, static
from langevin.dynamics.metrics.kronecker import Kronecker
from langevin.dynamics.riemann import Riemann


@kernel
class Shampoo(Riemann):
    """Langevin dynamics preconditioned along every axis of every weight tensor.

    epsilon: ε, added to every second moment.
    decay: β of their moving averages; 0, the present gradient alone, is what a correction needs.
    interval: steps between roots; 1 is what a correction needs.
    largest: an axis longer than this is not preconditioned.
    """

    epsilon: float = positive(default=1e-2)
    decay: float = static(default=0.0)
    interval: int = static(default=1)
    largest: int = static(default=512)
    audit = audited(step_size=0.05, epsilon=1.0, largest=4)  # a root of a 50 × 50 matrix a step is slow

    @property
    def metric(self) -> Kronecker:
        return Kronecker(self.epsilon, self.decay, self.interval, self.largest)
