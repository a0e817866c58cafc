r"""Targets whose truth is known, for tests, audits and benchmarks.

All but the last two have `mean` and `variance` (trees like the position, variances per coordinate) and `exact(key, n)`,
n independent draws with a leading axis. Gaussian, Banana, Funnel and Scales have `latent(position)`, which takes a
draw to d independent N(0, 1), so that one histogram serves all coordinates. `log_z` is the log of the integral of
e^{log_density}:

    Gaussian, Banana, Funnel, Mixture, Rings, Skew, Scales    0: normalised in closed form
    EightSchools                                              −31.3113, by quadrature over τ (the rest is Gaussian)
    logistic                                                  not known; `laplace_truth` estimates it with its own ESS
"""

from langevin.targets.zoo.gaussian import Gaussian, Scales, Skew
from langevin.targets.zoo.posteriors import EightSchools, Truth, laplace_draws, laplace_truth, logistic
from langevin.targets.zoo.shapes import Banana, Funnel, Mixture, Rings

__all__ = [
    "Banana",
    "EightSchools",
    "Funnel",
    "Gaussian",
    "Mixture",
    "Rings",
    "Scales",
    "Skew",
    "Truth",
    "laplace_draws",
    "laplace_truth",
    "logistic",
]
