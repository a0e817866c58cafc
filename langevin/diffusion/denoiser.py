r"""What a diffusion network says, turned into what is asked: score, noise, data, velocity; in this one place.

With x = m x₀ + s ε the same knowledge has four forms,

    noise ε̂,   data x̂₀ = (x − s ε̂)/m,   score = −ε̂/s,   velocity v̂ = m ε̂ − s x̂₀,

and a network may give any (`parameterisation`), or be

    "edm"      preconditioned: x̂₀ = c_skip y + c_out F(c_in y, ¼ ln σ) with y = x/m, σ = s/m and σ_d the scale of data,
               c_skip = σ_d²/(σ² + σ_d²), c_out = σ σ_d/√(σ² + σ_d²), c_in = 1/√(σ² + σ_d²)
    "energy"   a number E(x, t) with ε̂ = ∇E: then log p_t = −E/s + const, the score is a gradient for certain, and
               Metropolis correctors may be used.

References
----------
Ho, Jain & Abbeel (2020), Denoising diffusion probabilistic models, §3.2 (noise).
Salimans & Ho (2022), Progressive distillation for fast sampling of diffusion models, §4 (velocity).
Karras, Aittala, Aila & Laine (2022), Elucidating the design space of diffusion-based generative models, table 1.
Salimans & Ho (2021), Should EBMs model the energy or the score? §2.
"""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp

from langevin.core.record import positive, record, static
from langevin.diffusion.score import applied
from langevin.diffusion.times import check_choice

Form = Literal["score", "noise", "data", "velocity"]
Parameterisation = Literal["score", "noise", "data", "velocity", "edm", "energy"]
FORMS = ("score", "noise", "data", "velocity")
PARAMETERISATIONS = (*FORMS, "edm", "energy")


def convert(value, x, marginal, given: Form, wanted: Form):
    """A prediction at x = m x₀ + s ε, from one form to another; marginal: (m, s)."""
    check_choice("convert", "given", given, FORMS)
    check_choice("convert", "wanted", wanted, FORMS)
    if given == wanted:
        return value
    m, s = marginal
    if given == "data":
        e = (x - m * value) / s
    elif given == "velocity":
        e = (s * x + m * value) / (m**2 + s**2)
    else:
        e = -s * value if given == "score" else value
    if wanted == "noise":
        return e
    if wanted == "score":
        return -e / s
    # of a velocity the data come without a division by m, which is small where there is nearly nothing but noise
    data = (m * x - s * value) / (m**2 + s**2) if given == "velocity" else (x - s * e) / m
    return data if wanted == "data" else m * e - s * data


@record
class Denoiser:
    """A network as the score of a diffusion: denoiser(x, t) is ∇log p_t(x).

    process: the forward diffusion.
    program: the network without its arrays, called as net(x, clock) or net(x, clock, label).
    position: its arrays.
    parameterisation: what the network says.
    data_scale: σ_d of "edm", the standard deviation of the data.
    """

    process: Any
    program: Any = static()
    position: Any = None
    parameterisation: Parameterisation = static(default="noise")
    data_scale: float = positive(default=0.5)

    def __post_init__(self):
        check_choice("Denoiser", "parameterisation", self.parameterisation, PARAMETERISATIONS)

    @property
    def conservative(self) -> bool:
        """Whether the score is a gradient for certain, of `log_density`."""
        return self.parameterisation == "energy"

    def said(self, x, t, *label) -> tuple[Any, Form]:
        """What the network says, and in which form."""
        m, s = self.process.marginal(t)
        if self.parameterisation == "edm":
            skip, out, scale, clock = self.precondition(s / m)
            return skip * (x / m) + out * applied(self.program, self.position, scale * x / m, clock, *label), "data"
        if self.parameterisation == "energy":
            return jax.grad(self._energy)(x, t, *label), "noise"
        value = applied(self.program, self.position, x, self.process.clock(t), *label)
        return value, self.parameterisation

    def precondition(self, sigma):
        """c_skip, c_out, c_in and the clock of "edm"."""
        total = sigma**2 + self.data_scale**2
        root = jnp.sqrt(total)
        return self.data_scale**2 / total, sigma * self.data_scale / root, 1 / root, 0.25 * jnp.log(sigma)

    def predict(self, x, t, *label, form: Form = "score"):
        value, given = self.said(x, t, *label)
        return convert(value, x, self.process.marginal(t), given, form)

    def __call__(self, x, t, *label):
        return self.predict(x, t, *label)

    def log_density(self, x, t, *label):
        """log p_t(x) up to a constant, of an energy."""
        if not self.conservative:
            raise TypeError(f"Denoiser: {self.parameterisation!r} has no log density; learn an 'energy'.")
        return -self._energy(x, t, *label) / self.process.marginal(t)[1]

    def _energy(self, x, t, *label):
        return jnp.reshape(applied(self.program, self.position, x, self.process.clock(t), *label), ())


def denoised(process, score, x, t, *condition):
    """x̂₀ = E[x₀ | x_t] by any score (Tweedie)."""
    return convert(score(x, t, *condition), x, process.marginal(t), "score", "data")
