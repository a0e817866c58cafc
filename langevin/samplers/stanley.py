r"""STANLEY: Langevin steps that shorten where the gradient is long, as published and with what makes them right.

    x' = x + (γ/2) ∇f + √γ ξ,      γ = 2h D,      D = τ/max(τ, |∇f|)  (max, as printed)  or  τ/√(τ² + |∇f|²)  (smooth),

with f = log p. The step size h is that of SGLD; the paper has γ = D, which is h = ½. D is one number a chain, one a
coordinate, or one a pixel (the norm over its channels). As published nothing is corrected, and with one D a chain the
law is p^(1/T)/D in any dimension, for the flux h(D ∇f q − T ∇(D q)) vanishes there: modes are emptied. On N(0, 1)
with τ = ½, E x² = 1.79; for τ → 0 every coordinate (`per="coordinate"`) has twice its variance. A model trained with
such chains takes the bias into its energy, and its own samples do not show it. The corrections:

    correction     stationary distribution                  gradient evaluations a step
    metropolis     p^(1/T), exactly (default)               1
    weights        p^(1/T) for draws weighted by D          1, one D a chain alone
    hk2            p^(1/T) + O(h), any D                    2
    pec, exact, …  as in `dynamics.riemann`                 1, …
    none           p^(1/T)/D                                1

`dynamics.corrections` derives each. For hk2, pec and exact take form="smooth": a kink costs accuracy.

`every` = K > 1 is the loop as printed: γ is found once in K steps and held. Each stretch is plain Langevin
with a step of its own; the law is p^(1/T)/D for hK → 0 and comes near p^(1/T), bias O(h), as K grows beyond the
relaxation time. The printed noise √γ ε ξ is T = ε². The released code runs another update still: `noise_scaled`.

References
----------
Karimi, Xie & Li (2023), STANLEY: stochastic gradient anisotropic Langevin dynamics for learning energy-based models,
    arXiv:2310.12667, eq. (4), alg. 1.
Rensmeyer & Niggemann (2024), On the convergence of locally adaptive and scalable diffusion-based sampling methods, §3.
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core.kernel import audited, kernel
from langevin.core.record import positive, record, static
from langevin.core.schedule import at
from langevin.core.target import Exact
from langevin.core.types import Law
from langevin.dynamics.corrections import Metropolis
from langevin.dynamics.metrics.truncated import Form, Per, Truncated, check
from langevin.dynamics.riemann import Riemann


@kernel
class Stanley(Riemann):
    """Langevin dynamics whose step shortens where the gradient is long; by default accepted or rejected.

    correction: "metropolis" (exact), "weights" (one step a chain), "none" (as published), or one of those of
        `dynamics.riemann`: "hk2", "pec", "exact", "hutchinson", "rfd", "fixman".
    threshold: τ, the length of gradient beyond which steps shorten.
    form: "max", as printed, or "smooth".
    per: "chain" (one step size), "coordinate", or "pixel" (by channels, for images (channel, height, width)).
    every: K, steps for which a step size is kept; above 1 with correction="none" alone.
    """

    correction: Any = Metropolis()
    threshold: float = positive(default=1.0)
    form: Form = static(default="max")
    per: Per = static(default="chain")
    every: int = static(default=1)
    audit = audited(
        step_size=0.2, threshold=2.0, variants={"none": dict(step_size=0.05, threshold=0.5, correction="none")}
    )

    allowed: ClassVar[tuple[str, ...]] = (
        "metropolis",
        "weights",
        "none",
        "exact",
        "hutchinson",
        "rfd",
        "fixman",
        "hk2",
        "pec",
    )

    @property
    def metric(self) -> Truncated:
        return Truncated(self.threshold, self.form, self.per, self.every)

    def __post_init__(self):
        check("Stanley", self.form, self.per)
        if not isinstance(self.every, int) or self.every < 1:
            raise ValueError(f"Stanley: every is {self.every}; it is a number of steps, 1 or more.")
        Riemann.__post_init__(self)
        name = self.correction.name
        if self.every > 1 and name != "none":
            raise ValueError(
                f"Stanley: every={self.every} keeps a step size that depends on where its stretch began, which "
                f"{name!r} does not see; take every=1 or correction='none'."
            )
        if name == "weights" and self.per != "chain":
            raise ValueError(
                f"Stanley: 'weights' undo one step size a chain, not one a {self.per}; take correction='metropolis'."
            )
        if self.metric_batch is not None and name in ("metropolis", "weights"):
            raise ValueError(f"Stanley: {name!r} has no batch for the metric; leave metric_batch out.")
        if name == "metropolis" and self.noise != "normal":
            raise ValueError("Stanley: 'metropolis' needs the density of its noise; take noise='normal'.")
        if name == "metropolis" and isinstance(self.temperature, np.floating) and self.temperature == 0:
            raise ValueError("Stanley: 'metropolis' needs a temperature above 0; take correction='hk2'.")

    def law(self) -> Law:
        return self.uncorrected_law() if self.every > 1 else Riemann.law(self)

    def uncorrected_law(self) -> Law:
        which, better = "p^(1/T)/D", "take correction='metropolis' or 'hk2'"
        if self.every > 1:
            words = (
                f"no distribution of known density: {which}, {self.metric.words}, if those are far short of the "
                f"relaxation time, nearer p^(1/T) the longer they are; {better} and every=1"
            )
            return Law("wrong", 0.0, None, words)
        if self.per != "chain":
            law = Riemann.uncorrected_law(self)
            return law._replace(words=law.words.replace("take correction='pec'", better))
        words = f"{which}, {self.metric.words} (in any dimension), not p^(1/T): modes are emptied; {better}"
        return Law("wrong", 1.0, Slow(self.metric, self.temperature), words)


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
