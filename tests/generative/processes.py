"""Processes and exact scores that the tests of diffusion share."""

import jax.numpy as jnp

from langevin.core.record import record
from langevin.diffusion.denoiser import FORMS, convert
from langevin.diffusion.sde import EDM, VE, VP, SubVP

PROCESSES = [VP(), SubVP(), VE(high=8.0), EDM(high=10.0)]


name = lambda value: type(value).__name__


@record
class Gauss:
    """What a perfect network says of N(0, v): position v."""

    process: object
    form: str
    scale: float = 0.5

    def __call__(self, v, x, clock):
        if self.form == "edm":  # x is c_in y, the clock ¼ ln σ
            sigma = jnp.exp(4 * clock)
            total = sigma**2 + self.scale**2
            y = x * jnp.sqrt(total)
            data = v / (v + sigma**2) * y
            return (data - self.scale**2 / total * y) * jnp.sqrt(total) / (sigma * self.scale)
        t = jnp.exp(4 * clock) if isinstance(self.process, EDM) else clock
        m, s = self.process.marginal(t)
        if self.form == "energy":
            return 0.5 * s * jnp.sum(x**2) / (m**2 * v + s**2)
        return convert(-x / (m**2 * v + s**2), x, (m, s), "score", self.form)


FORMED = {(name(p), f): Gauss(p, f) for p in PROCESSES for f in (*FORMS, "edm", "energy")}


def label_or_none(position, x, clock, label):
    return position * jnp.where(label == 3, 1.0, 0.0) * jnp.ones_like(x)
