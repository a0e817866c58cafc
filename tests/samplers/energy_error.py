"""A Gaussian and states that the tests of microcanonical tuners share."""

import jax
import numpy as np

from langevin.core.begin import begin_all
from langevin.targets.zoo import Gaussian

D, CHAINS = 50, 16


TARGET = Gaussian.conditioned(D, 25.0)


SIZE = float(np.sqrt(np.asarray(TARGET.variance).sum()))


def begin(key, kernel, target=TARGET, chains=CHAINS):
    k_start, k_init, k_tune, k_run = jax.random.split(key, 4)
    return begin_all(k_init, kernel, target, target.exact(k_start, chains)), k_tune, k_run
