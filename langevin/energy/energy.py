r"""An energy-based model as a target: a net gives f = −E, and

    log p(x) = f(x)/T − |x|²/2σ² + constant.

The temperature T is stated and is the model's: chains have the target above, so that drift and noise are tied and no
sampler can be hotter or colder than the density it is said to have. The Gaussian factor makes e^{f/T} integrable: with
a net whose gradient is bounded nothing else does.

The array leaves of the net are the `position` of training, x is the position of chains.

References
----------
LeCun, Chopra, Hadsell, Ranzato & Huang (2006), A tutorial on energy-based learning.
Nijkamp, Hill, Han, Zhu & Wu (2020), On the anatomy of MCMC-based maximum likelihood learning, §3 (T = ε²/2).
Saremi & Hyvärinen (2019), Neural empirical Bayes, eq. (1) (`denoised`).
"""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from langevin.core.record import positive, record, replace, static
from langevin.core.target import Exact


@record
class Energy(Exact):
    """p ∝ e^{f/T} e^{−|x|²/2σ²}.

    weights: the array leaves of the net.
    net: the rest of it: x → f(x), one number.
    temperature: T.
    scale: σ of the Gaussian factor; inf for none.
    shape: of one x.
    """

    weights: Any
    net: Any = static()
    temperature: Any = positive(default=1.0)
    scale: Any = positive(default=math.inf)
    shape: tuple[int, ...] = static(default=(2,))

    @classmethod
    def of(cls, net: Any, shape: tuple[int, ...], *, temperature: float = 1.0, scale: float = math.inf) -> Energy:
        """From an Equinox net; refused where it does not give one number."""
        weights, rest = eqx.partition(net, eqx.is_inexact_array)
        out = jax.eval_shape(net, jax.ShapeDtypeStruct(shape, jnp.float32))
        if math.prod(out.shape) != 1:
            raise ValueError(f"Energy: the net gives {out.shape} for one x of {shape}; it must give one number.")
        return cls(weights, rest, temperature, scale, shape)

    def with_weights(self, weights: Any) -> Energy:
        return replace(self, weights=weights)

    def f(self, x):
        """−E(x), of one x."""
        return eqx.combine(self.weights, self.net)(x).reshape(())

    def log_density(self, x):
        return self.f(x) / self.temperature - 0.5 * jnp.sum((x / self.scale) ** 2)

    def denoised(self, x, std):
        """E[clean | x] where the model is of data with noise of this deviation (Tweedie): x + std² ∇log p(x)."""
        return x + std**2 * jax.grad(self.log_density)(x)

    @property
    def words(self) -> str:
        """What a report says of it."""
        T, scale = float(self.temperature), float(self.scale)
        factor = f", times N(0, {scale:.3g}²)" if math.isfinite(scale) else ", with no Gaussian factor"
        return f"p ∝ e^(f/T), T = {T:.3g}{factor}"


def integrable(key, energy: Energy, radius: float, draws: int = 64) -> None:
    """Refuse a model whose log density does not fall along rays from `radius` outwards: e^{f/T} has no integral."""
    unit = jax.random.normal(key, (draws, *energy.shape))
    unit = unit / jnp.sqrt(jnp.sum(unit**2, axis=tuple(range(1, unit.ndim)), keepdims=True))
    near, far = (jax.vmap(energy.log_density)(r * unit) for r in (1e3 * radius, 2e3 * radius))
    rising = float(jnp.mean(far >= near))
    if rising > 0:
        raise ValueError(
            f"Energy: the log density does not fall along {100 * rising:.0f} % of rays far out: e^f has no integral; "
            "give the model a Gaussian factor, scale=…"
        )
