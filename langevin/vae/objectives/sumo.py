r"""An estimate of log p(x) without the bias of IWAE: a Russian roulette over ever more draws.

    SUMO = IWAE_m + Σ_{j=0}^{J} (IWAE_{2^{j+1} m} − IWAE_{2^j m})/P(J ≥ j),      P(J ≥ j) = 2^{−j tail},

all of them on the first draws of one set. Its mean is IWAE of the most draws that J allows, m 2^levels, so the bias
left is that of so many draws; with no end to the levels it would be log p(x). Single values exceed log p(x).
The levels double, where the paper adds one draw a time, so a value costs m Σ_j 2^{j+1} P(J = j) draws on average,
m (levels + 1) with tail = 1. One J serves a mini-batch; a step costs what its J costs.

References
----------
Luo, Beatson, Norouzi, Zhu, Duvenaud, Adams & Chen (2020), SUMO: unbiased estimation of log marginal probability for
  latent variable models, eqs. (6)-(9).
Kahn (1955), Use of different Monte Carlo sampling techniques.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from langevin.core import noise
from langevin.core.record import positive, record, static
from langevin.evidence.weights import log_mean_exp


@record
class SUMO:
    """The Russian roulette estimate.

    draws: m, that are always taken.
    levels: how often the draws may double.
    tail: how fast the chance of another doubling falls; 1 as in the paper.
    """

    draws: int = static(default=5)
    levels: int = static(default=6)
    tail: float = positive(default=1.0)

    def __post_init__(self):
        if self.draws < 1 or self.levels < 1:
            raise ValueError(f"SUMO: {self.draws} draws and {self.levels} levels; take 1 or more of each.")

    def init(self, key, model):
        return ()

    def values(self, key, posteriors, params):
        k_level, k_draw = jax.random.split(key)
        # J = 0 … levels − 1, P(J ≥ j) = 2^{−j tail}
        u = jax.random.uniform(k_level, minval=1e-7)
        level = jnp.clip(jnp.floor(-jnp.log2(u) / self.tail), 0, self.levels - 1).astype(jnp.int32)

        # as words: runs side by side take every branch, and the key only once
        word, wrap = noise.words(k_draw)

        def up_to(j):
            log_w = posteriors.log_weight(posteriors.draw(wrap(word), self.draws * 2 ** (j + 1)))
            means = [log_mean_exp(log_w[:, : self.draws * 2**i], axis=1) for i in range(j + 2)]
            return means[0] + sum((means[i + 1] - means[i]) * 2.0 ** (i * self.tail) for i in range(j + 1))

        branches = [lambda j=j: up_to(j) for j in range(self.levels)]
        return jax.lax.switch(level, branches)
