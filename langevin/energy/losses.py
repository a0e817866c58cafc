r"""Energies trained without chains, as losses for `targets.loss.Loss`. (Scores of energies are in `diffusion.score`.)

    NCE                  −log σ(u(x)) − Σ_{j≤ν} log(1 − σ(u(y_j))),   y_j ~ q,   u = log p − c − log ν q:
                         c is learned, and p e^{−c} is normalised at the optimum
    EnergyDiscrepancy    log(w/M + 1/M Σ_j exp(log p(x + σξ + σξ_j) − log p(x)))
    CrossEntropy         −log p(y | x) of a classifier whose logits are energies: log p(x) = logsumexp of them (JEM)

The position of NCE is (weights, c), of the others the weights.

References
----------
Gutmann & Hyvärinen (2012), Noise-contrastive estimation of unnormalized statistical models, eqs. (8)-(10).
Schröder, Ou, Lim, Li, Vollmer & Duncan (2023), Energy discrepancies: a score-independent loss, eq. (8).
Grathwohl et al. (2020), Your classifier is secretly an energy based model and you should treat it like one, §4.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from langevin.core.record import nonnegative, positive, record, static
from langevin.core.smooth import softplus
from langevin.energy.energy import Energy


@record
class NCE:
    """Noise-contrastive estimation.

    energy: the model.
    base: the noise: `exact(key, n)` and a normalised `log_density`, as the targets of the zoo have.
    ratio: ν, noise points an example.
    """

    energy: Energy
    base: Any
    ratio: int = static(default=1)

    def __call__(self, key, position, rows):
        weights, c = position
        model, n = self.energy.with_weights(weights), len(rows)
        noise = self.base.exact(key, n * self.ratio).reshape(n * self.ratio, *rows.shape[1:])
        odds = lambda x: model.log_density(x) - c - jnp.log(self.ratio) - self.base.log_density(x)
        wrong = softplus(jax.vmap(odds)(noise)).reshape(n, self.ratio)
        return softplus(-jax.vmap(odds)(rows)) + jnp.sum(wrong, axis=1)


@record
class EnergyDiscrepancy:
    """Data against data that are blurred twice; no chains, no scores.

    energy: the model.
    scale: σ of each blur.
    stabiliser: w.
    contrasts: M, blurred points an example.
    """

    energy: Energy
    scale: Any = positive(default=0.3)
    stabiliser: Any = nonnegative(default=1.0)
    contrasts: int = static(default=16)

    def __call__(self, key, weights, rows):
        model = self.energy.with_weights(weights)
        k_one, k_two = jax.random.split(key)
        blurred = rows + self.scale * jax.random.normal(k_one, rows.shape)
        again = self.scale * jax.random.normal(k_two, (self.contrasts, *rows.shape))
        there = jax.vmap(jax.vmap(model.log_density))(blurred[None] + again)
        gap = there - jax.vmap(model.log_density)(rows)[None]
        floor = jnp.broadcast_to(jnp.log(self.stabiliser), (1, len(rows)))
        return logsumexp(jnp.concatenate([gap, floor]), axis=0) - jnp.log(self.contrasts)


@record
class CrossEntropy:
    """−log softmax of a classifier's logits; rows are (x, y).

    net: x → logits, without its array leaves; these are the position.
    """

    net: Any = static()

    def __call__(self, key, weights, rows):
        x, y = rows
        logits = jax.vmap(eqx.combine(weights, self.net))(x)
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1)[:, 0]


class Joint(eqx.Module):
    """f(x) = logsumexp of a classifier's logits: the energy of JEM."""

    net: Any

    def __call__(self, x):
        return logsumexp(self.net(x))
