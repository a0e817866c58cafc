r"""Langevin dynamics in a metric that depends on where it is, and every way to pay for Γ.

With D(θ) the inverse metric, the law of

    dθ = [D ∇log p + T Γ] dt + √(2 T D) dW,      Γ_i = Σ_j ∂_j D_ij,

is p^(1/T); without Γ it is p^(1/T)/D in one dimension, for independent coordinates with D_i = D_i(θ_i), and for
D = ψ(θ) I (where it reads p^(1/T)/ψ); in general it has no closed form. With s = √(2Th), R = √D and ξ of unit variance,
a step is θ' = θ + h (D g + T Γ̂) + s η, and

    correction    Γ̂                         η                           gradient evaluations a step
    none          0                         R(θ) ξ                      1
    exact         Γ(θ)                      R(θ) ξ                      1, and d differentiated (0 if D is of θ alone)
    hutchinson    ∂_{Rv}[D R⁻¹v], v = ±1    R(θ) ξ                      1, and 1 differentiated
    rfd           [D(θ+δv) − D(θ)]v/δ       R(θ) ξ                      2
    fixman        0                         ½[D(θ) + D(y)] R(θ)⁻¹ ξ     2
    hk2           0                         R(y) ξ, for diagonal D      2
    pec           0                         R(y) ξ, or as fixman        1

with y = θ + s R(θ)ξ the predicted end of the step: random finite differences, Fixman's rule, end-point noise, and
predict-evaluate-correct. Each is a record in `dynamics.corrections` with its derivation. All are of weak order 1.

On a mini-batched target a metric and a drift from the same batch give E[D(ĝ)ĝ] ≠ E[D]E[ĝ], a bias that stays as
h → 0 and can exceed that of Γ. So a corrected kernel takes its metric from a batch of its own, `metric_batch` of the
drift's in size, the same at both of its points; the stationary distribution is then p^(1/T) for any size of it. This
costs two more evaluations of that batch a step (`hk2`), or one (`pec`, which holds it for 64 steps).

`eval` is at y and not at `position` under `pec`.

References
----------
Girolami & Calderhead (2011), Riemann manifold Langevin and Hamiltonian Monte Carlo methods, eq. (10).
Ma, Chen & Fox (2015), A complete recipe for stochastic gradient MCMC, eqs. (3)-(5).
Rensmeyer & Niggemann (2024), On the convergence of locally adaptive and scalable diffusion-based sampling methods, §3.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Protocol

import jax

from langevin.core.kernel import Kernel, warn_once
from langevin.core.noise import Noise
from langevin.core.record import nonnegative, positive, record, static
from langevin.core.schedule import Schedule
from langevin.core.types import Law, PyTree, Scalar
from langevin.dynamics.corrections import CORRECTIONS, Auto, Correction, NoCorrection
from langevin.dynamics.uncorrected import WithoutGamma

CLOSED = "in one dimension and for independent coordinates; without closed form otherwise"


class LocalMetric(Protocol):
    """D as a small record. `kind` says what D depends on, which decides what correction is right.

    "gradient": the present gradient alone. "position": θ alone, and `divergence` is closed. "frozen": nothing present,
    Γ = 0. "moving": a moving average, for which no correction is right.
    """

    @property
    def kind(self) -> Literal["gradient", "position", "frozen", "moving"]: ...
    @property
    def diagonal(self) -> bool: ...
    def start(self, position: PyTree) -> PyTree: ...  # running statistics, before the first gradient
    def update(self, memory: PyTree, grad: PyTree, count: Scalar) -> PyTree: ...
    def geometry(self, memory: PyTree, grad: PyTree, position: PyTree) -> PyTree: ...  # whatever `apply` needs
    def apply(self, geometry: PyTree, v: PyTree) -> PyTree: ...  # D v
    def root(self, geometry: PyTree, v: PyTree) -> PyTree: ...  # √D v
    def unroot(self, geometry: PyTree, v: PyTree) -> PyTree: ...  # √D⁻¹ v
    def tilt(self, geometry: PyTree) -> Scalar: ...  # log of what divides p when Γ is dropped
    @property
    def words(self) -> str: ...  # D as a formula

    def instant(self) -> Any: ...  # itself without memory

    # kind "position" adds divergence(position); kind "moving" adds decay


@record
class Riemann(Kernel):
    """Abstract: what every kernel in a metric has; a subclass adds a `metric`.

    step_size: h.
    temperature: T; the chain targets p^(1/T).
    correction: how Γ is included: "auto", "none", "exact", "hutchinson", "rfd", "fixman", "hk2" (diagonal metrics) or
        "pec", or a record of `dynamics.corrections`.
    metric_batch: the share of a batch the metric has to itself; None: 1/8 if a correction needs it; 0: none of its own.
    noise: "normal" or "rademacher".
    """

    step_size: Schedule = positive(default=1e-3)
    temperature: Schedule = nonnegative(default=1.0)
    correction: Any = Auto()
    metric_batch: float | None = static(default=None)
    noise: Noise = static(default="normal")

    allowed: ClassVar[tuple[str, ...]] = ("auto", "none", "exact", "hutchinson", "rfd", "fixman", "hk2", "pec")

    @property
    def metric(self) -> Any:
        """D: a record from `langevin.dynamics.metrics`."""
        raise NotImplementedError

    @property
    def requires(self) -> type:
        return self.correction.requires

    def __post_init__(self):
        name, metric = type(self).__name__, self.metric
        if isinstance(self.correction, str):
            if self.correction not in self.allowed:
                raise ValueError(f"{name}: correction is {self.correction!r}; it must be one of {self.allowed}.")
            object.__setattr__(self, "correction", CORRECTIONS[self.correction]())
        if not isinstance(self.correction, Correction) or self.correction.name not in self.allowed:
            raise ValueError(f"{name}: correction is {self.correction!r}; it must be one of {self.allowed}.")
        if self.correction.diagonal and not metric.diagonal:
            raise ValueError(
                f"{name}: {self.correction.name!r} is right for a diagonal metric only; take correction='fixman' or "
                "'rfd'."
            )
        if self.metric_batch is not None and not 0 <= self.metric_batch <= 1:
            raise ValueError(f"{name}: metric_batch is {self.metric_batch}; it is a share of the batch, 0 to 1.")
        law = self.law()
        if law.kind == "wrong":
            warn_once(f"{name} converges to {law.words}.")

    # --- which correction, for which target --------------------------------------------------------------------

    def resolve(self, stochastic: bool = False) -> Correction:
        """The correction in force: Γ = 0 for a frozen metric, and "auto" is the cheapest that is right."""
        if self.metric.kind == "frozen":
            return NoCorrection()
        return self.correction.choose(self.metric, stochastic) if isinstance(self.correction, Auto) else self.correction

    def own_batch(self, target) -> float:
        """The share of a batch the metric is evaluated on by itself; 0 if it is the drift's batch."""
        correction, metric = self.resolve(target.stochastic), self.metric
        if not target.stochastic or metric.kind in ("position", "frozen"):
            return 0.0
        share = correction.own_batch if self.metric_batch is None else float(self.metric_batch)
        if not share:
            correction.accept_one_batch(type(self).__name__, "hk2" if metric.diagonal else "fixman")
        return share

    # --- the kernel ---------------------------------------------------------------------------------------------

    def init(self, key, position, target):
        return self.resolve(target.stochastic).init(self, key, position, target)

    def step(self, key, state, target):
        return self.resolve(target.stochastic).step(self, key, state, target)

    def law(self) -> Law:
        metric, correction = self.metric, self.resolve()
        if metric.kind == "frozen":
            return Law("order", 1.0, None, f"p^(1/T) as h → 0 and the windows grow, {metric.words}; bias O(h)")
        if metric.kind == "moving":
            corrected = not isinstance(correction, NoCorrection)
            power, which = (metric.decay, f"p^(1/T)/D^{metric.decay:g}") if corrected else (1.0, "p^(1/T)/D")
            words = f"{which}, {metric.words}, as h → 0 ({CLOSED}), for no correction sees all of a moving average; "
            density = WithoutGamma(metric.instant(), self.temperature, power)
            return Law("wrong", 0.0, density, words + "take decay 0 and a correction")
        return correction.law(self)

    def uncorrected_law(self) -> Law:
        """p^(1/T)/D, where that has a closed form."""
        metric = self.metric
        best = "exact" if metric.kind == "position" else "pec" if metric.diagonal else "fixman"
        words = f"p^(1/T)/D, {metric.words}, not p^(1/T) ({CLOSED}); take correction='{best}'"
        return Law("wrong", 1.0, WithoutGamma(metric.instant(), self.temperature, 1.0), words)

    # --- what a state carries of the metric --------------------------------------------------------------------------

    def carried(self, target, memory, grad, position):
        """The geometry a state carries, if the next step does not find it from a batch of its own or from `eval`."""
        return () if self.own_batch(target) or self.recomputes else self.metric.geometry(memory, grad, position)

    def geometry(self, state):
        """The metric at the last evaluation."""
        if self.recomputes and not jax.tree.leaves(state.memory[1]):
            return self.metric.geometry(state.memory[0], state.eval.grad, state.position)
        return state.memory[1]

    @property
    def recomputes(self) -> bool:
        """Whether the geometry is found again from the gradient, where that is a few operations a coordinate."""
        return self.metric.diagonal and self.metric.kind == "gradient"
