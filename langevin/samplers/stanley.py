r"""STANLEY: Langevin steps that shorten where the gradient is long, as published and with what makes them right.

    x' = x + (γ/2) ∇f + √γ ξ,      γ = 2h D,      D = τ/max(τ, |∇f|)  (max, as printed)  or  τ/√(τ² + |∇f|²)  (smooth),

with f = log p. The step size h is that of SGLD; the paper has γ = D, which is h = ½. D is one number a chain, one a
coordinate, or one a pixel (the norm over its channels). As published nothing is corrected, and with one D a chain the
law is p^(1/T)/D in any dimension, for the flux h(D ∇f q − T ∇(D q)) vanishes there: modes are emptied. On N(0, 1)
with τ = ½, E x² = 1.79; for τ → 0 every coordinate (`per="coordinate"`) has twice its variance. A model trained with
such chains takes the bias into its energy, and its own samples do not show it. The corrections:

    correction     law                                      looks at the target a step
    metropolis     p^(1/T), exactly (default)               1
    weights        p^(1/T) for draws weighted by D          1, one D a chain alone
    hk2            p^(1/T) + O(h), any D                    2
    pec, exact, …  as in `core.riemann`                     1, …
    none           p^(1/T)/D                                1

Metropolis accepts y = x + hDg + √(2ThD) ξ with min(1, e^−Δ),

    Δ = (f(x) − f(y))/T + |x − y − hD'g'|²_{1/D'}/(4Th) − |ξ|²/2 + ½ log det D' − ½ log det D.

Weights are a change of clock: the chain is plain Langevin dynamics seen at times dt = D dτ, so averages weighted by D
are averages over t (single draws are still of p/D). For hk2, pec and exact take form="smooth": a kink costs accuracy.

`every` = K > 1 is the loop as printed: γ is found once in K steps and held. Each stretch is plain Langevin
with a step of its own; the law is p^(1/T)/D for hK → 0 and comes near p^(1/T), bias O(h), as K grows beyond the
relaxation time. The printed noise √γ ε ξ is T = ε². The released code runs another update still: `noise_scaled`.

References
----------
Karimi, Xie & Li (2023), STANLEY: stochastic gradient anisotropic Langevin dynamics for learning energy-based models,
    arXiv:2310.12667, eq. (4), alg. 1.
Rensmeyer & Niggemann (2024), On the convergence of locally adaptive and scalable diffusion-based sampling methods, §3.
Roberts & Stramer (2002), Langevin diffusions and Metropolis-Hastings algorithms (position-dependent proposals).
Leimkuhler, Lohmann & Whalley (2025), A Langevin sampling algorithm inspired by the Adam optimizer (weights).
"""

from __future__ import annotations

from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import noise, tree
from langevin.core.kernel import kernel, metropolis, report, warn_once
from langevin.core.record import positive, record, static
from langevin.core.schedule import at
from langevin.core.target import Exact, look, minibatched
from langevin.core.types import Law
from langevin.dynamics.metrics.truncated import Form, Per, Truncated, check
from langevin.dynamics.riemann import Correction, Riemann

OWN = ("metropolis", "weights")  # what core.riemann does not have
CORRECTIONS = tuple(c for c in (*OWN, *get_args(Correction)) if c != "auto")


@kernel
class Stanley(Riemann):
    """Langevin dynamics whose step shortens where the gradient is long; by default accepted or rejected.

    correction: "metropolis" (exact), "weights" (one step a chain), "none" (as published), or one of `core.riemann`'s:
        "hk2", "pec", "exact", "hutchinson", "rfd", "fixman".
    threshold: τ, the length of gradient beyond which steps shorten.
    form: "max", as printed, or "smooth".
    per: "chain" (one step size), "coordinate", or "pixel" (by channels, for images (channel, height, width)).
    every: K, steps for which a step size is kept; above 1 with correction="none" alone.
    """

    correction: Any = static(default="metropolis")
    threshold: float = positive(default=1.0)
    form: Form = static(default="max")
    per: Per = static(default="chain")
    every: int = static(default=1)

    @property
    def metric(self) -> Truncated:
        return Truncated(self.threshold, self.form, self.per, self.every)

    def __post_init__(self):
        check("Stanley", self.form, self.per)
        if self.correction not in CORRECTIONS:
            raise ValueError(f"Stanley: correction is {self.correction!r}; it must be one of {CORRECTIONS}.")
        if not isinstance(self.every, int) or self.every < 1:
            raise ValueError(f"Stanley: every is {self.every}; it is a number of steps, 1 or more.")
        if self.every > 1 and self.correction != "none":
            raise ValueError(
                f"Stanley: every={self.every} keeps a step size that depends on where its stretch began, which "
                f"{self.correction!r} does not see; take every=1 or correction='none'."
            )
        if self.correction == "weights" and self.per != "chain":
            raise ValueError(
                f"Stanley: 'weights' undo one step size a chain, not one a {self.per}; take correction='metropolis'."
            )
        if self.metric_batch is not None and (self.correction in OWN or not 0 <= self.metric_batch <= 1):
            raise ValueError(
                f"Stanley: metric_batch is {self.metric_batch}; it is a share of the batch, 0 to 1, for corrections "
                "of core.riemann alone."
            )
        if self.correction == "metropolis":
            self._check_exact()
        law = self.law()
        if law.kind == "wrong":
            warn_once(f"Stanley converges to {law.words}.")

    def _check_exact(self):
        if self.noise != "normal":
            raise ValueError("Stanley: 'metropolis' needs the density of its noise; take noise='normal'.")
        if isinstance(self.temperature, np.floating) and self.temperature == 0:
            raise ValueError("Stanley: 'metropolis' needs a temperature above 0; take correction='hk2'.")

    def resolved(self, target=None) -> str:
        return "none" if self.correction in OWN else super().resolved(target)

    def own_batch(self, target) -> float:
        if self.correction not in OWN:
            return super().own_batch(target)
        if minibatched(target):
            warn_once(
                f"Stanley: correction={self.correction!r} on a mini-batched target takes metric and drift from one "
                "batch, a bias that stays as h → 0; correction='hk2' has none."
            )
        return 0.0

    def step(self, key, state, target):
        if self.correction == "metropolis":
            return self._adjusted(key, state, target)
        new, info = super().step(key, state, target)
        if self.correction == "weights":
            info = info._replace(log_weight=self.metric.tilt(self._geometry(new)).astype(jnp.float32))
        return new, info

    def _adjusted(self, key, state, target):
        k_eval, k_noise, k_accept = jax.random.split(key, 3)
        h, T = at(self.step_size, state.count), at(self.temperature, state.count)
        metric, here, s = self.metric, self._geometry(state), jnp.sqrt(2 * T) * jnp.sqrt(h)
        xi = noise.like(k_noise, state.position)
        moved = tree.axpy(h, metric.apply(here, state.eval.grad), tree.scale(s, metric.root(here, xi)))
        position = tree.add(state.position, moved)
        evaluation, feed = look(k_eval, target, state.feed, position)
        there = metric.geometry((), evaluation.grad, position)
        # the noise that would lead back, up to its sign
        back = tree.scale(1 / s, metric.unroot(there, tree.axpy(h, metric.apply(there, evaluation.grad), moved)))
        error = (
            (state.eval.log_density - evaluation.log_density) / T
            + 0.5 * (tree.dot(back, back) - tree.dot(xi, xi))
            + 0.5 * (_log_det(there, position) - _log_det(here, position))
        )
        new, probability = metropolis(k_accept, error, state._replace(position=position, eval=evaluation), state)
        new = new._replace(feed=feed, count=state.count + 1)
        return new, report(new, acceptance=probability, energy_error=error, n_data=evaluation.n_data)

    def law(self) -> Law:
        metric, which = self.metric, "p^(1/T)/D"
        better = "take correction='metropolis' or 'hk2'"
        if self.correction == "metropolis":
            return Law("exact", 0.0, None, "p^(1/T), exactly, on an exact target")
        if self.correction == "weights":
            words = f"p^(1/T) for draws weighted by e^log_weight, as h → 0; bias O(h) (single draws are of {which})"
            return Law("order", 1.0, None, words)
        if self.every > 1:
            words = (
                f"no law of known density: {which}, {metric.words}, if those are far short of the relaxation time, "
                f"nearer p^(1/T) the longer they are; {better} and every=1"
            )
            return Law("wrong", 0.0, None, words)
        if self.correction != "none":
            return super().law()
        if self.per != "chain":
            law = super().law()
            return law._replace(words=law.words.replace("take correction='pec'", better))
        words = f"{which}, {metric.words} (in any dimension), not p^(1/T): modes are emptied; {better}"
        return Law("wrong", 1.0, Slow(metric, self.temperature), words)


def _log_det(geometry, position):
    """Σ log D over all coordinates, whether D is one number, one a pixel or one a coordinate."""
    parts = jax.tree.map(lambda d, u: jnp.sum(jnp.broadcast_to(jnp.log(d), u.shape)), geometry, position)
    return sum(jax.tree.leaves(parts), jnp.zeros(()))


@record
class Slowed(Exact):
    """p^(1/T)/D, D one number a chain: what is left when nothing is corrected, in any dimension.

    target: p.
    metric: D.
    temperature: T.
    """

    target: Any
    metric: Any
    temperature: Any = 1.0

    def log_density(self, position):
        value, grad = jax.value_and_grad(self.target.log_density)(position)
        T = at(self.temperature, jnp.zeros((), jnp.int32))
        return value / T - self.metric.tilt(self.metric.geometry((), grad, position))


class Slow:
    """Target → Slowed; a class so that laws compare and print."""

    def __init__(self, metric, temperature):
        self.metric, self.temperature = metric, temperature

    def __call__(self, target):
        return Slowed(target, self.metric, self.temperature)
