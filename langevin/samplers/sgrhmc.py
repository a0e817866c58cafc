r"""Stochastic gradient Riemann Hamiltonian Monte Carlo.

With a diagonal metric from the gradient and its root S = G^{-1/2},

    G⁻¹_i = (g_i² + λ²)^{-1/2},      S_i = (g_i² + λ²)^{-1/4},

the recipe on z = (θ, r), H = −log p(θ) + ½|r|², is

    D = [[0, 0], [0, G⁻¹]],      Q = [[0, −S], [S, 0]],      Γ = (0, ∇·S),      (∇·S)_i = ∂_i S_i,

and a step, momentum first and then position with the new momentum,

    r' = r + h (S∘ĝ − S²∘r + T Γ̂) + √(2 T h) S∘ξ,      θ' = θ + h S∘r'.

The law is p^(1/T) × N(0, T) as h → 0, with a bias O(h). `correction` says how Γ = ∇·S is paid for: "exact", d
differentiated looks; "hutchinson", one, ∂_v[S v] for random signs v; "rfd", one more plain look, [S(θ + δv) − S(θ)]
v/δ at the same batch. "none" drops Γ: in one dimension the momentum then lacks T S′, as if the force were S (g − T
S′/S), whose law is p^(1/T)/S; in more dimensions S_i depends on all of θ through g_i and the law has no closed form.

On a mini-batched target the metric is evaluated on a batch of its own (`metric_batch` of the drift's, the same batch at
both points). Averaged over it, the dynamics is the recipe with D = E[Ŝ²], Q from E[Ŝ] and Γ = ∇·E[Ŝ], whose law is
p^(1/T) for any batch size; with the drift's batch E[Ŝ ĝ] ≠ E[Ŝ] E[ĝ] would stay as h → 0. The metrics of the paper are
others; this one, and the estimates of Γ, are choices made here.

References
----------
Ma, Chen & Fox (2015), A complete recipe for stochastic gradient MCMC, §3.2, alg. 1 (the sampler, D, Q and Γ).
Girolami & Calderhead (2011), Riemann manifold Langevin and Hamiltonian Monte Carlo methods.
Delong, Balboa Usabiaga, Delgado-Buscalioni, Griffith & Donev (2014), Brownian dynamics without Green's functions,
    §III.B (random finite differences).
"""

from __future__ import annotations

from typing import Literal, get_args

import jax
import jax.numpy as jnp

from langevin.core import noise, tree
from langevin.core.kernel import Kernel, audited, begin_moving, kernel, report, warn_once
from langevin.core.noise import Noise
from langevin.core.record import nonnegative, positive, static
from langevin.core.schedule import Schedule, at
from langevin.core.types import Law
from langevin.dynamics import divergence

Correction = Literal["none", "exact", "hutchinson", "rfd"]


@kernel
class SGRHMC(Kernel):
    """Langevin dynamics with momentum in a metric that follows the gradient.

    step_size: h.
    temperature: T; the chain targets p^(1/T).
    floor: λ, the gradient below which the metric is constant.
    delta: δ, the length of the finite difference of "rfd".
    correction: how Γ is found: "rfd", "hutchinson", "exact", or "none" (a wrong law).
    metric_batch: the share of a batch that is drawn for the metric alone, on a mini-batched target.
    noise: "normal" or "rademacher".
    """

    step_size: Schedule = positive(default=1e-2)
    temperature: Schedule = nonnegative(default=1.0)
    floor: float = positive(default=1.0)
    delta: float = positive(default=1e-3)
    correction: Correction = static(default="rfd")
    metric_batch: float = static(default=1 / 8)
    noise: Noise = static(default="normal")
    audit = audited(step_size=0.15)

    def __post_init__(self):
        if self.correction not in get_args(Correction):
            raise ValueError(f"SGRHMC: correction is {self.correction!r}; it must be one of {get_args(Correction)}.")
        if not 0 < self.metric_batch <= 1:
            raise ValueError(f"SGRHMC: metric_batch is {self.metric_batch}; it is a share of the batch, above 0 to 1.")
        if self.correction == "none":
            warn_once(f"SGRHMC converges to {self.law().words}.")

    def init(self, key, position, target):
        return begin_moving(key, position, target, self.temperature)

    def step(self, key, state, target):
        k_noise, k_eval, k_metric = jax.random.split(key, 3)
        h, T = at(self.step_size, state.count), at(self.temperature, state.count)
        S, gamma, looks, n_data = self.metric(k_metric, state, target)
        kicked = lambda r, s, g, c, xi: r + h * (s * g - s**2 * r + T * c) + jnp.sqrt(2 * T) * jnp.sqrt(h) * s * xi
        xi = noise.like(k_noise, state.aux, self.noise)
        r = jax.tree.map(lambda r, *rest: kicked(r, *rest).astype(r.dtype), state.aux, S, state.eval.grad, gamma, xi)
        position = tree.axpy(h, tree.mul(S, r), state.position)
        evaluation, feed = target.estimate(k_eval, state.feed, position)
        new = state._replace(position=position, aux=r, eval=evaluation, feed=feed, count=state.count + 1)
        return new, report(new, n_grad=1 + looks, n_data=evaluation.n_data + looks * n_data)

    def metric(self, key, state, target):
        """S, Γ̂, how many more looks they took, and the examples in each."""
        k_draw, k_probe = jax.random.split(key)
        own, position, grad = target.stochastic, state.position, state.eval.grad
        batch, _ = target.draw(k_draw, state.feed, fraction=self.metric_batch if own else 1.0)
        looked = target.evaluate(batch, position) if own else state.eval
        root = lambda grad: jax.tree.map(lambda g: (g**2 + self.floor**2) ** -0.25, grad)
        apply = lambda position, v: tree.mul(root(target.evaluate(batch, position).grad), v)
        S = root(looked.grad)
        if self.correction == "none":
            gamma, looks = tree.zeros_like(grad), 0
        elif self.correction == "exact":
            gamma, looks = divergence.exact(apply, position), tree.size(position)
        else:
            v, looks = noise.like(k_probe, position, "rademacher"), 1
            if self.correction == "rfd":
                gamma = divergence.rfd(apply, position, v, tree.mul(S, v), self.delta)
            else:
                gamma = divergence.along(apply, position, v, v)
        return S, gamma, looks + own, looked.n_data

    def law(self) -> Law:
        if self.correction == "none":
            words = "a law without closed form that is not p^(1/T), for Γ = ∇·G^(-1/2) is left out; "
            return Law("wrong", 1.0, None, words + "take correction='rfd'")
        return Law("order", 1.0, None, "p^(1/T) as h → 0; bias O(h), plus O(h) from mini-batch noise")
