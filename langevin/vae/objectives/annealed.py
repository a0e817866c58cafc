r"""Differentiable annealed variational inference: the encoder's draw is annealed towards p_θ(z | x) inside the bound.

    L = E log (1/S) Σ_s p_θ(x, z_K)/q_φ(z_0 | x) Π_k N(v̂_k)/N(v_{k−1}),

z and v moved by K leapfrog steps on q_φ^{1−β_k} p_θ(x, ·)^{β_k} with partly refreshed momenta, the chain of
`evidence.annealing.dais`; all of it is differentiated, in θ, φ, and in what is learned of the annealing itself. K = 0
is the IWAE bound of S draws. Eq. (23) of the paper prints z₀ in the numerator where z_K belongs.

`gradient="block"` holds the decoder constant in the forces on the way, so that θ learns from z_K alone: a third less
to compute. The gradient of φ and of the annealing stays what it is, that of θ is biased.

References
----------
Zhang, Hsu, Li, Finn & Grosse (2021), Differentiable annealed importance sampling, §3.1, eqs. (15), (23).
Geffner & Domke (2021), MCMC variational inference via uncorrected Hamiltonian annealing (UHA).
Geffner & Domke (2023), Langevin diffusion variational inference (`backward`).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp

from langevin.core.record import record, replace, static
from langevin.evidence.annealing import dais
from langevin.evidence.annealing.dais import Annealing, Memory
from langevin.evidence.annealing.ladder import power_ladder, to_ladder
from langevin.evidence.annealing.ldvi import Score
from langevin.evidence.annealing.learn_bound import bind, free
from langevin.evidence.annealing.reversible import Reversible
from langevin.evidence.base import Normal
from langevin.evidence.weights import log_mean_exp

LEARNABLE = ("rises", "log_step", "logit_gamma", "log_mass")


@record
class Annealed:
    """DAVI, also called UHA.

    steps: K; 0 is IWAE.
    draws: S, chains of one example.
    step_size: η, or what it begins with.
    gamma: γ, the share of the momentum that a step keeps, or what it begins with.
    learn: parts of the annealing that are learned, of rises (the ladder β), log_step, logit_gamma and log_mass.
    ladder: β_0 … β_K, or None for k/K.
    memory: what the gradient keeps, as in `dais.log_weight`.
    gradient: "full", or "block" with the decoder held in the forces.
    backward: hidden units of a network that learns to take the chain back (LDVI); 0 for none.
    """

    steps: int = static(default=10)
    draws: int = static(default=5)
    step_size: Any = 0.08
    gamma: Any = 0.9
    learn: tuple[str, ...] = static(default=())
    ladder: Any = None
    memory: Memory | Reversible = static(default="auto")
    gradient: Literal["full", "block"] = static(default="full")
    backward: int = static(default=0)

    def __post_init__(self):
        if self.steps < 0 or self.draws < 1:
            raise ValueError(
                f"Annealed: {self.steps} steps and {self.draws} draws; steps must be 0 or more, draws 1 or more."
            )
        unknown = [part for part in self.learn if part not in LEARNABLE]
        if unknown:
            raise ValueError(f"Annealed: there is no part {unknown[0]!r} to learn; there are {', '.join(LEARNABLE)}.")
        if self.gradient not in ("full", "block"):
            raise ValueError(f"Annealed: gradient is {self.gradient!r}; it must be 'full' or 'block'.")
        if self.ladder is not None and len(to_ladder(self.ladder)) != self.steps + 1:
            raise ValueError(
                f"Annealed: the ladder has {len(self.ladder)} entries, but {self.steps} steps need {self.steps + 1}."
            )

    def begin(self) -> Annealing:
        """The annealing before anything is learned."""
        beta = power_ladder(self.steps, 1.0) if self.ladder is None else jnp.asarray(self.ladder)
        return Annealing(beta[1:], self.step_size, self.gamma)

    def init(self, key, model):
        if not self.steps:
            return ()
        learned: dict[str, Any] = {
            k: v for k, v in free(self.begin(), jnp.zeros(model.latent)).items() if k in self.learn
        }
        if self.backward:
            learned["backward"] = Score.begin(key, Normal(jnp.zeros(model.latent)), width=self.backward)
        return learned

    def annealing(self, params: Any) -> Annealing:
        """What has been learned, beside what stays as it is."""
        begun = self.begin()
        parts = [part for part in self.learn if part in params]
        if not parts:
            return begun
        latent = params["log_mass"] if "log_mass" in parts else jnp.zeros(())
        now = bind(free(begun, latent) | {part: params[part] for part in parts})
        names = {"rises": "beta", "log_step": "step_size", "logit_gamma": "gamma", "log_mass": "mass"}
        return replace(begun, **{names[part]: getattr(now, names[part]) for part in parts})

    def values(self, key, posteriors, params):
        if not self.steps:
            return log_mean_exp(posteriors.log_weight(posteriors.draw(key, self.draws)), axis=1)
        backward = params["backward"] if self.backward else None
        return log_mean_exp(log_weights(key, posteriors, self, self.annealing(params), backward), axis=1)


def log_weights(key: Any, posteriors: Any, how: Annealed, annealing: Annealing, backward: Any = None) -> jax.Array:
    """log w of every chain of every example, (row, draw)."""

    def one(target, base, key):
        held = jax.lax.stop_gradient(target) if how.gradient == "block" else None
        options: dict[str, Any] = dict(memory=how.memory, backward=backward, surrogate=held)
        return dais.log_weights(key, target, base, annealing, particles=how.draws, **options)

    return posteriors.each(partial(one), jax.random.split(key, posteriors.rows))
