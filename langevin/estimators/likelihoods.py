"""Which likelihood suits the numbers of a target, where the user leaves it open (`langevin fit --likelihood auto`).

negative_binomial   counts: whole numbers from 0 or 1 up, of at least three values, skewed to the right (above 0.3),
                    with a variance that is not clearly below their mean (0.8 times it)
lognormal           numbers above 0 with a skewness above 1 that taking logarithms reduces to less than half
gaussian            all others
"""

from __future__ import annotations

import numpy as np

COUNT_SKEW, SPREAD = 0.3, 0.8
LONG_TAIL, REDUCED = 1.0, 0.5


def choose_likelihood(y: np.ndarray) -> tuple[str, str]:
    """The likelihood, and a sentence that says why, empty for the Gaussian; of several targets one that suits all."""
    every = {_of_one(u) for u in np.asarray(y, float).reshape(len(y), -1).T}
    name = every.pop() if len(every) == 1 else "gaussian"
    other = "Another is taken by --likelihood"
    if name == "negative_binomial":
        return name, f"The target holds counts: the likelihood is the negative binomial. {other} poisson or gaussian."
    if name == "lognormal":
        return name, f"The target is positive with a long tail: the likelihood is log-normal. {other} gaussian."
    return name, ""


def _of_one(y: np.ndarray) -> str:
    values = np.unique(y)
    if len(values) < 3:
        return "gaussian"
    whole = bool((values == np.round(values)).all())
    if whole and 0 <= values[0] <= 1 and _skewness(y) > COUNT_SKEW and y.var() >= SPREAD * y.mean():
        return "negative_binomial"
    if values[0] > 0 and _skewness(y) > LONG_TAIL and abs(_skewness(np.log(y))) < REDUCED * _skewness(y):
        return "lognormal"
    return "gaussian"


def _skewness(y: np.ndarray) -> float:
    z = (y - y.mean()) / y.std()
    return float(np.mean(z**3))
