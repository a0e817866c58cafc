r"""Langevin dynamics in a metric that depends on where it is, and every way to pay for Γ.

With D(θ) the inverse metric, the law of

    dθ = [D ∇log p + T Γ] dt + √(2 T D) dW,      Γ_i = Σ_j ∂_j D_ij,

is p^(1/T); without Γ it is p^(1/T)/D in one dimension, for independent coordinates with D_i = D_i(θ_i), and for
D = ψ(θ) I (where it reads p^(1/T)/ψ); in general it has no closed form. With s = √(2Th), R = √D and ξ of unit variance,
a step is θ' = θ + h (D g + T Γ̂) + s η, and

    correction    Γ̂                         η                           looks at the target a step
    none          0                         R(θ) ξ                      1
    exact         Γ(θ)                      R(θ) ξ                      1, and d differentiated (0 if D is of θ alone)
    hutchinson    ∂_{Rv}[D R⁻¹v], v = ±1    R(θ) ξ                      1, and 1 differentiated
    rfd           [D(θ+δv) − D(θ)]v/δ       R(θ) ξ                      2
    fixman        0                         ½[D(θ) + D(y)] R(θ)⁻¹ ξ     2
    hk2           0                         R(y) ξ, for diagonal D      2
    pec           0                         R(y) ξ, or as fixman        1

with y = θ + s R(θ)ξ the predicted end of the step. Why η carries Γ: E[R_i(y)ξ_i] = s R_i ∂_i R_i = (s/2) ∂_i D_i for a
diagonal D, and s·(s/2) = h T; likewise E[½(D(y) − D(θ)) R⁻¹ξ] = (s/2) ∇·D for any D. `pec` looks at the target only at
y, predicted with the gradient and metric of the last y,

    y = θ + h D₋g₋ + s R₋ξ,      θ' = θ + (h/2)(D₋g₋ + D g) + s η,      D, g at y,

which is right because θ and the last y are O(h) apart. For constant D it is a trapezoidal rule of order 2. All are
of weak order 1; `pec` is stable for h D|∇²log p| < 1, the others for 2.

On a mini-batched target a metric and a drift from the same batch give E[D(ĝ)ĝ] ≠ E[D]E[ĝ], a bias that stays as
h → 0 and can exceed that of Γ. So a corrected kernel takes its metric from a batch of its own, `metric_batch` of the
drift's in size, the same at both of its points; the law is then p^(1/T) for any size of it. `pec` with such a batch
holds it for 64 steps, through which D is a fixed function of θ, and needs one look at it a step where `hk2` needs two.

`eval` is at y and not at `position` under `pec`.

References
----------
Girolami & Calderhead (2011), Riemann manifold Langevin and Hamiltonian Monte Carlo methods, eq. (10).
Ma, Chen & Fox (2015), A complete recipe for stochastic gradient MCMC, eqs. (3)-(5).
Rensmeyer & Niggemann (2024), On the convergence of locally adaptive and scalable diffusion-based sampling methods, §3.
Fixman (1978), Simulation of polymer dynamics I; Hütter & Öttinger (1998), Fluctuation-dissipation theorem, kinetic
    stochastic integral and efficient simulations (½[D(θ) + D(y)]R⁻¹ξ).
Hänggi & Thomas (1982), Stochastic processes: time evolution, symmetries and linear response (the end-point rule).
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, get_args

import jax
import jax.numpy as jnp
from jax import lax

from langevin.core import noise, tree
from langevin.core.kernel import begin, report, warn_once
from langevin.core.noise import Noise
from langevin.core.record import nonnegative, positive, record, static
from langevin.core.schedule import Schedule, at
from langevin.core.target import look, minibatched
from langevin.core.types import Law, PyTree, Scalar
from langevin.dynamics import divergence
from langevin.dynamics.uncorrected import Tilt

Correction = Literal["auto", "none", "exact", "hutchinson", "rfd", "fixman", "hk2", "pec"]
OWN_BATCH = 1 / 8  # of the drift's batch: what a corrected kernel's metric looks at unless told otherwise
HELD = 64  # steps for which `pec` holds the metric's own batch


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

    # kind "position" adds divergence(position); kind "moving" adds decay and instant(), itself without memory


@record
class Riemann:
    """Abstract: what every kernel in a metric has; a subclass adds a `metric`.

    step_size: h.
    temperature: T; the chain targets p^(1/T).
    correction: "auto", "none", "exact", "hutchinson", "rfd", "fixman", "hk2" (diagonal metrics) or "pec".
    metric_batch: the share of a batch the metric has to itself; None: 1/8 if a correction needs it; 0: none of its own.
    delta: δ of "rfd", in units of the position; larger where matrix products have few digits.
    noise: "normal" or "rademacher".
    """

    step_size: Schedule = positive(default=1e-3)
    temperature: Schedule = nonnegative(default=1.0)
    correction: Correction = static(default="auto")
    metric_batch: float | None = static(default=None)
    delta: float = positive(default=1e-3)
    noise: Noise = static(default="normal")

    @property
    def metric(self) -> Any:
        """D: a record from `langevin.dynamics.metrics`."""
        raise NotImplementedError

    def __post_init__(self):
        name, metric = type(self).__name__, self.metric
        if self.correction not in get_args(Correction):
            raise ValueError(f"{name}: correction is {self.correction!r}; it must be one of {get_args(Correction)}.")
        if self.correction == "hk2" and not metric.diagonal:
            raise ValueError(f"{name}: 'hk2' is right for a diagonal metric only; take correction='fixman' or 'rfd'.")
        if self.metric_batch is not None and not 0 <= self.metric_batch <= 1:
            raise ValueError(f"{name}: metric_batch is {self.metric_batch}; it is a share of the batch, 0 to 1.")
        law = self.law()
        if law.kind == "wrong":
            warn_once(f"{name} converges to {law.words}.")

    # --- which correction, for which target --------------------------------------------------------------------

    def resolved(self, target=None) -> str:
        """The correction in force: "auto" is the cheapest that is right for this metric and target."""
        kind = self.metric.kind
        if kind == "frozen":
            return "none"
        if self.correction != "auto":
            return self.correction
        if kind == "moving":
            return "none"
        if kind == "position":
            return "exact"
        if not self.metric.diagonal:
            return "fixman"
        return "hk2" if target is not None and minibatched(target) else "pec"

    def own_batch(self, target) -> float:
        """The share of a batch the metric looks at by itself; 0 if it sees what the drift sees."""
        correction, kind = self.resolved(target), self.metric.kind
        if not minibatched(target) or kind in ("position", "frozen"):
            return 0.0
        if self.metric_batch is not None:
            share = float(self.metric_batch)
        else:
            share = 0.0 if correction in ("none", "pec") else OWN_BATCH
        name, best = type(self).__name__, "hk2" if self.metric.diagonal else "fixman"
        if correction == "pec" and not share:
            warn_once(
                f"{name}: correction='pec' on a mini-batched target takes metric and drift from one batch, a bias that "
                f"stays as h → 0; metric_batch=1/8 or correction={best!r} has none."
            )
        elif correction != "none" and not share:
            raise ValueError(
                f"{name}: on a mini-batched target {correction!r} needs a batch for the metric; take metric_batch=1/8."
            )
        return share

    # --- the kernel ---------------------------------------------------------------------------------------------

    def init(self, key, position, target):
        k_begin, k_metric = jax.random.split(key)
        state = begin(k_begin, position, target)
        memory = self.metric.update(self.metric.start(position), state.eval.grad, state.count)
        share = self.own_batch(target)
        if self.resolved(target) == "pec" and share:
            looks = Looks(k_metric, self.metric, target, state._replace(memory=(memory, ())), share)
            return state._replace(memory=(memory, (looks.at(position)[1], looks.batch)))
        return state._replace(memory=(memory, self._kept(target, memory, state.eval.grad, position)))

    def step(self, key, state, target):
        if self.resolved(target) != "pec":
            return self._corrected(key, state, target)
        return (self._held if self.own_batch(target) else self._predicted)(key, state, target)

    def law(self) -> Law:
        metric, correction = self.metric, self.resolved()
        tilted = lambda power: Tilt(getattr(metric, "instant", lambda: metric)(), self.temperature, power)
        where = "in one dimension and for independent coordinates; without closed form otherwise"
        if metric.kind == "frozen":
            return Law("order", 1.0, None, f"p^(1/T) as h → 0 and the windows grow, {metric.words}; bias O(h)")
        if metric.kind == "moving":
            power = 1.0 if correction == "none" else metric.decay
            which = "p^(1/T)/D" if correction == "none" else f"p^(1/T)/D^{metric.decay:g}"
            words = f"{which}, {metric.words}, as h → 0 ({where}), for no correction sees all of a moving average; "
            return Law("wrong", 0.0, tilted(power), words + "take decay 0 and a correction")
        if correction == "none":
            words = f"p^(1/T)/D, {metric.words}, not p^(1/T) ({where}); "
            best = "exact" if metric.kind == "position" else "pec" if metric.diagonal else "fixman"
            return Law("wrong", 1.0, tilted(1.0), words + f"take correction='{best}'")
        words = "p^(1/T) as h → 0; bias O(h), plus O(h) from mini-batch noise"
        return Law("order", 1.0, None, words)

    # --- one step -----------------------------------------------------------------------------------------------

    def _corrected(self, key, state, target):
        """All but `pec`: the step begins with an evaluation at `position` and ends with the next."""
        k_noise, k_eval, k_metric, k_probe = jax.random.split(key, 4)
        h, T = at(self.step_size, state.count), at(self.temperature, state.count)
        metric, correction, share = self.metric, self.resolved(target), self.own_batch(target)
        memory, geometry, position = state.memory[0], self._geometry(state), state.position
        xi, s = noise.like(k_noise, position, self.noise), jnp.sqrt(2 * T) * jnp.sqrt(h)
        looks, n_data = Looks(k_metric, metric, target, state, share), state.eval.n_data
        if share:
            memory, geometry, n_data = looks.at(position)
        eta = metric.root(geometry, xi)
        gamma = tree.zeros_like(position)
        if correction in ("hk2", "fixman"):
            there = looks.at(tree.axpy(s, eta, position))[1]
            if correction == "hk2":
                eta = metric.root(there, xi)
            else:
                eta = tree.scale(0.5, tree.add(eta, metric.apply(there, metric.unroot(geometry, xi))))
        elif correction == "exact":
            closed = metric.kind == "position"
            gamma = metric.divergence(position) if closed else divergence.exact(looks.apply, position)
        elif correction != "none":
            v = noise.like(k_probe, position, "rademacher")
            if correction == "rfd":
                gamma = divergence.rfd(looks.apply, position, v, metric.apply(geometry, v), self.delta)
            else:
                gamma = divergence.along(looks.apply, position, metric.root(geometry, v), metric.unroot(geometry, v))

        drift = metric.apply(geometry, state.eval.grad)
        position = jax.tree.map(
            lambda u, d, c, n: (u + h * (d + T * c) + s * n).astype(u.dtype), position, drift, gamma, eta
        )
        evaluation, feed = look(k_eval, target, state.feed, position)
        if not share:
            memory = metric.update(memory, evaluation.grad, state.count + 1)
        kept = self._kept(target, memory, evaluation.grad, position)
        new = state._replace(
            position=position, memory=(memory, kept), eval=evaluation, feed=feed, count=state.count + 1
        )
        extra = bool(share) + {"none": 0, "exact": tree.size(position)}.get(correction, 1)
        extra = 0 if metric.kind == "position" else extra
        return new, report(new, n_grad=1 + extra, n_data=evaluation.n_data + extra * n_data)

    def _predicted(self, key, state, target):
        """`pec`: one look, at the predicted end of the step."""
        k_noise, k_eval = jax.random.split(key)
        memory, before = state.memory[0], self._geometry(state)

        def seen(there):
            evaluation, feed = look(k_eval, target, state.feed, there)
            now = self.metric.update(memory, evaluation.grad, state.count + 1)
            return evaluation, feed, now, self.metric.geometry(now, evaluation.grad, there)

        position, evaluation, feed, memory, now = self._pec(k_noise, state, before, seen)
        kept = () if self._found_again() else now
        new = state._replace(
            position=position, memory=(memory, kept), eval=evaluation, feed=feed, count=state.count + 1
        )
        return new, report(new)

    def _held(self, key, state, target):
        """`pec` with a batch of the metric's own, held for HELD steps: while it is, D is a function of θ alone."""
        k_noise, k_eval, k_metric = jax.random.split(key, 3)
        memory, (before, batch) = state.memory
        words, wrap = noise.words(k_metric)
        looks = Looks.on(batch, self.metric, target, state)

        def fresh(words):
            anew = Looks(wrap(words), self.metric, target, state, self.own_batch(target))
            return anew.at(state.position)[1], anew.batch

        again = state.count % HELD == 0
        before, looks.batch = lax.cond(again, fresh, lambda _: (before, batch), words)
        n_data = []

        def seen(there):
            evaluation, feed = look(k_eval, target, state.feed, there)
            _, now, n = looks.at(there)
            n_data.append(n)
            return evaluation, feed, memory, now

        position, evaluation, feed, memory, now = self._pec(k_noise, state, before, seen)
        new = state._replace(
            position=position, memory=(memory, (now, looks.batch)), eval=evaluation, feed=feed, count=state.count + 1
        )
        extra = 1 + again.astype(jnp.int32)
        return new, report(new, n_grad=1 + extra, n_data=evaluation.n_data + extra * n_data[0])

    def _pec(self, key, state, before, seen):
        """Predict with the last metric and gradient, look there, correct with the same noise."""
        h, T = at(self.step_size, state.count), at(self.temperature, state.count)
        metric, s = self.metric, jnp.sqrt(2 * T) * jnp.sqrt(h)
        xi = noise.like(key, state.position, self.noise)
        pull, kick = metric.apply(before, state.eval.grad), metric.root(before, xi)
        moved = lambda u, d, n: (u + h * d + s * n).astype(u.dtype)
        evaluation, feed, memory, now = seen(jax.tree.map(moved, state.position, pull, kick))
        if metric.diagonal:
            eta = metric.root(now, xi)
        else:
            eta = tree.scale(0.5, tree.add(kick, metric.apply(now, metric.unroot(before, xi))))
        drift = tree.scale(0.5, tree.add(pull, metric.apply(now, evaluation.grad)))
        return jax.tree.map(moved, state.position, drift, eta), evaluation, feed, memory, now

    def _kept(self, target, memory, grad, position):
        """The geometry a state carries, if the next step does not find it from a batch of its own or from `eval`."""
        return () if self.own_batch(target) or self._found_again() else self.metric.geometry(memory, grad, position)

    def _geometry(self, state):
        """The metric at the last look: found again from its gradient where that is a few operations a coordinate."""
        if self._found_again() and not jax.tree.leaves(state.memory[1]):
            return self.metric.geometry(state.memory[0], state.eval.grad, state.position)
        return state.memory[1]

    def _found_again(self) -> bool:
        return self.metric.diagonal and self.metric.kind == "gradient"


class Looks:
    """The metric as a function of position within one step: one batch, looked at as often as asked."""

    def __init__(self, key, metric, target, state, share):
        self.metric, self.target, self.state = metric, target, state
        # drawn here and not at the first look, which may be inside a map; below 1, so that no epoch is followed
        fraction = min(share, 1 - 1e-6) if share else 1.0
        self.batch = target.draw(key, state.feed, fraction=fraction)[0] if metric.kind != "position" else None

    @classmethod
    def on(cls, batch, metric, target, state):
        """The same on a batch at hand."""
        self = cls.__new__(cls)
        self.metric, self.target, self.state, self.batch = metric, target, state, batch
        return self

    def at(self, position):
        """The statistics, the geometry and the number of examples after one more look at this position."""
        (memory, _), count = self.state.memory, self.state.count
        if self.metric.kind == "position":
            return memory, self.metric.geometry(memory, self.state.eval.grad, position), 0
        evaluation = self.target.evaluate(self.batch, position)
        memory = self.metric.update(memory, evaluation.grad, count)
        return memory, self.metric.geometry(memory, evaluation.grad, position), evaluation.n_data

    def apply(self, position, v):
        return self.metric.apply(self.at(position)[1], v)
