r"""log Z of an energy by annealing, and with it the log density of a point in nats.

    log p(x) = f(x)/T − |x|²/2σ² − log Z,        path  N(0, σ²) e^{β f/T},  β from 0 to 1.

The Gaussian factor of the model is the base: it is normalised, and it is where no learning has happened. T is small for
images and f/T is thousands of nats, so nearly all of the change is at small β: the ladder is (k/K)⁴.

Climbing gives a lower bound of log Z on average, so log p is overstated where the ladder is too coarse. With `draws` of
the model there is an upper bound too, by going down from them. That needs *exact* draws: in the plane a grid has them
(`diagnostics.grid.drawn`); for images there are none. Chains put in their place make no bound, but they are a test of
the chains: an "upper" value below the lower one is what draws of another law give.

References
----------
Neal (2001), Annealed importance sampling, §2.
Grosse, Ghahramani & Adams (2015), Sandwiching the marginal likelihood using bidirectional Monte Carlo.
Nijkamp, Hill, Han, Zhu & Wu (2020), On the anatomy of MCMC-based maximum likelihood learning, §2 (what chains learn).
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp

from langevin.core.types import Key, PyTree
from langevin.energy.energy import Energy
from langevin.evidence.annealing.ais import AIS
from langevin.evidence.annealing.bdmc import BDMC
from langevin.evidence.annealing.ladder import power_ladder
from langevin.evidence.base import Base, Normal
from langevin.evidence.types import Evidence


def log_z(
    key: Key, energy: Energy, *, draws: PyTree = None, base: Base | None = None, ladder: Any = 4000, particles: int = 64
) -> Evidence:
    """log Z of an energy: unbiased-Z; with draws of the model, between two bounds.

    draws: (draw, …) of the model, for the upper bound. base: None for the Gaussian factor. ladder: rungs, or how many.
    """
    if base is None:
        if not math.isfinite(float(energy.scale)):
            raise ValueError("log_z: the energy has no Gaussian factor to begin at; pass base=Normal(mean, scale).")
        base = Normal(jnp.zeros(energy.shape), energy.scale)
    beta = power_ladder(ladder, 4.0) if isinstance(ladder, int) and ladder > 0 else ladder
    method = AIS if draws is None else BDMC
    return method(ladder=beta, particles=particles)(key, energy, base, draws)
