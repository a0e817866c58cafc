r"""Guidance: a score bent towards a class, by a classifier or by the model itself.

    Classifier       s(x, t) + w ∇ log p(y | x_t)
    ClassifierFree   s(x, t, ∅) + w [s(x, t, y) − s(x, t, ∅)]

w = 0 leaves the class out, w = 1 is the conditional law, w > 1 is sharper than any law the model has learned: the
marginals of p(x_t) p(y | x_t)^w are not those of one diffusion, so there samplers of different noise differ.

References
----------
Dhariwal & Nichol (2021), Diffusion models beat GANs on image synthesis, alg. 1.
Ho & Salimans (2022), Classifier-free diffusion guidance, eq. (6), whose w is this one less 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from langevin.core.record import record, static
from langevin.diffusion.annealed import has_density


@record
class Classifier:
    """A score (x, t, y) of an unconditional score and a classifier of noisy x.

    score: (x, t) → ∇log p_t(x).
    log_prob: (args, x, t, y) → log p(y | x_t), a module-level function.
    args: what it needs, e.g. the arrays of a network.
    weight: w.
    """

    score: Any
    log_prob: Callable = static()
    args: Any = ()
    weight: float = 1.0

    @property
    def conservative(self) -> bool:
        return has_density(self.score)

    def log_density(self, x, t, label):
        """Of the guided law, up to a constant; if the score has a log density."""
        return self.score.log_density(x, t) + self.weight * self.log_prob(self.args, x, t, label)

    def __call__(self, x, t, label):
        return self.score(x, t) + self.weight * jax.grad(self.log_prob, argnums=1)(self.args, x, t, label)


@record
class ClassifierFree:
    """A score (x, t, y) of one conditional model, asked twice.

    score: (x, t, y) → ∇log p_t(x | y), where y = `null` means no class.
    null: the label that means none.
    weight: w.
    """

    score: Any
    null: int = static(default=0)
    weight: float = 1.0

    @property
    def conservative(self) -> bool:
        return has_density(self.score)

    def log_density(self, x, t, label):
        free = self.score.log_density(x, t, self.null)
        return free + self.weight * (self.score.log_density(x, t, label) - free)

    def __call__(self, x, t, label):
        free = self.score(x, t, self.null)
        return free + self.weight * (self.score(x, t, label) - free)
