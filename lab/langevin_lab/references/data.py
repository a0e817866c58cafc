"""Data of the reference models: small enough to be written here, in scikit-learn, or simulated with a fixed seed.

Hares and lynxes: pelts (thousands) of the Hudson's Bay Company, 1900 to 1920. Mesquite bushes: Gelman & Hill (2007),
§4.6. Counts: eleven counts of posteriordb's gp_pois_regr.
"""

from __future__ import annotations

import numpy as np

F = np.float32


def _numbers(text: str) -> np.ndarray:
    return np.array(text.split(), float)


SCHOOLS = _numbers("28 8 -3 7 -1 1 18 12").astype(F), _numbers("15 10 16 11 9 11 10 18").astype(F)
COUNTS = np.arange(-10, 11, 2).astype(F), _numbers("40 37 29 12 4 3 9 19 77 82 33").astype(F)
HARE = _numbers("""
    30 47.2 70.2 77.4 36.3 20.6 18.1 21.4 22 25.4 27.1 40.3 57 76.6 52.3 19.5 11.2 7.6 14.6 16.2 24.7
""")
LYNXES = _numbers("4 6.1 9.8 35.2 59.4 41.7 19 13 8.3 9.1 7.4 8 12.3 19.5 45.7 51.1 29.7 15.8 9.7 10.1 8.6")
LYNX = (np.stack([HARE, LYNXES], axis=1).astype(F),)
WEIGHT = _numbers("""
    401.3 513.7 1179.2 308 855.2 268.7 155.5 1253.2 328 614.6 60.2 269.6 448.4 120.4 378.7 266.4 138.9 1020.8 635.7
    621.8 579.8 326.8 66.7 68 153.1 256.4 723 4052 345 330.9 163.5 1160 386.6 693.5 674.4 217.5 771.3 341.7 125.7
    462.5 64.5 850.6 226 1745.1 908 213.5
""")
CANOPY = _numbers("""
    1 1.33 0.6 1.2 1.05 1 0.9 1.3 0.6 0.8 0.6 0.95 1.2 0.7 1.2 1.1 0.64 1.2 1.2 1.3 1 0.9 1 0.5 0.9 0.6 1.4 2.5 1.4
    1.3 1.1 1.5 0.8 1.1 1.3 0.85 1.5 1.2 1.15 1.5 0.7 1.9 1.5 1.5 1.5 0.62
""")
TOTAL = _numbers("""
    1.3 1.35 2.16 1.8 1.55 1.2 1 1.7 0.8 1.2 0.9 1.35 1.4 1 1.7 1.5 0.65 1.5 1.7 1.7 1.5 1.5 1.2 0.7 1.2 0.8 1.7 3
    1.7 1.6 1.5 1.9 1.1 1.6 2 1.25 2 1.3 1.45 2.2 0.7 1.9 1.8 2 2.2 0.92
""")
DIAMETER_1 = _numbers("""
    1.8 1.7 2.8 1.3 3.3 1.4 1.5 3.9 1.8 2.1 0.8 1.3 1.2 1.5 2.8 1.4 1.5 2.4 1.9 2.3 2.1 2.4 1 1.3 1.1 1.3 2.5 5.2 2
    1.6 1.4 3.2 1.9 2.4 2.5 2.1 2.4 2.4 1.9 2.7 1.3 2.9 2.1 4.1 2.8 1.27
""")
DIAMETER_2 = _numbers("""
    1.15 1.35 2.55 0.85 1.9 1.4 0.5 2.3 1.35 1.6 0.63 0.95 0.9 0.7 1.7 0.85 0.6 2.4 1.55 1.6 1.7 1.3 0.4 0.6 0.7 1.2
    2.3 4 1.6 1.6 1 1.9 1.8 2.4 1.8 1.5 2.2 1.7 1.2 2.5 1.1 2.7 1 3.8 2.5 1
""")


def mesquite() -> tuple[np.ndarray, np.ndarray]:
    """log canopy volume, area, shape, total height and group; log weight."""
    volume, area, shape = DIAMETER_1 * DIAMETER_2 * CANOPY, DIAMETER_1 * DIAMETER_2, DIAMETER_1 / DIAMETER_2
    group = (np.arange(46) >= 26).astype(float)
    x = np.stack([np.ones(46), np.log(volume), np.log(area), np.log(shape), np.log(TOTAL), group], axis=1)
    return x.astype(F), np.log(WEIGHT).astype(F)


def _standard(x: np.ndarray) -> np.ndarray:
    return ((x - x.mean(axis=0)) / x.std(axis=0)).astype(F)


def _with_one(x: np.ndarray) -> np.ndarray:
    return np.concatenate([np.ones((len(x), 1), F), _standard(x)], axis=1)


def breast_cancer() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    return _with_one(x), (2 * y - 1).astype(F)


def diabetes() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    return _with_one(x), _standard(y)


def wine() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_wine

    x, y = load_wine(return_X_y=True)
    return _with_one(x), y.astype(np.int32)


def returns(n: int = 100) -> tuple[np.ndarray]:
    """Simulated with μ = −9, φ = 0.95, σ = 0.25."""
    random, h = np.random.default_rng(0), np.empty(n)
    h[0] = random.standard_normal() * 0.25 / np.sqrt(1 - 0.95**2)
    for t in range(1, n):
        h[t] = 0.95 * h[t - 1] + 0.25 * random.standard_normal()
    return ((np.exp(0.5 * (h - 9)) * random.standard_normal(n)).astype(F),)
