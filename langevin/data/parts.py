"""Parts of a table and one scale for its columns.

References
    Hernández-Lobato, Adams (2015). Probabilistic backpropagation for scalable learning of Bayesian neural
        networks. ICML. (`published_split`)
    Foong, Li, Hernández-Lobato, Turner (2019). 'In-between' uncertainty in Bayesian neural networks.
        arXiv:1906.11537. (`gap_split`)
"""

from dataclasses import dataclass

import numpy as np

from langevin.data.files import DataError


def split(n: int, seed: int, fractions=(0.8, 0.1, 0.1)) -> tuple[np.ndarray, ...]:
    """Shuffled indices of the parts of n rows; the same seed gives the same parts."""
    if min(fractions) <= 0 or abs(sum(fractions) - 1) > 1e-9:
        raise DataError(f"split was given fractions {tuple(fractions)}: they must be positive and add to 1.")
    ends = np.round(np.cumsum(fractions) * n).astype(int)
    parts = np.split(np.random.default_rng(seed).permutation(n), ends[:-1])
    if min(map(len, parts)) == 0:
        raise DataError(f"{n} rows cannot be split by {tuple(fractions)}: a part is empty; take fewer parts.")
    return tuple(parts)


def published_split(n: int, i: int) -> tuple[np.ndarray, np.ndarray]:
    """The i-th (from 0) published split of a UCI table of n rows: indices (train, test), 90 % and 10 %."""
    generator = np.random.RandomState(1)
    orders = [generator.choice(n, n, replace=False) for _ in range(i + 1)]
    train = int(np.floor(0.9 * n + 0.5))
    return orders[i][:train], orders[i][train:]


def gap_split(X, feature: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices (train, test): the middle third by that feature is test, so that one must interpolate."""
    order, n = np.argsort(np.asarray(X)[:, feature], kind="stable"), len(X)
    low, high = n // 3, 2 * n // 3
    return np.concatenate([order[:low], order[high:]]), order[low:high]


@dataclass(frozen=True)
class Standard:
    """Standardisation of columns, fitted on training data and applied to any.

    center: mean of each column
    scale: standard deviation of each column; 1 where a column is constant, which is left at zero so
    """

    center: np.ndarray
    scale: np.ndarray

    @classmethod
    def fit(cls, X) -> "Standard":
        """From (n, d), or from a target (n,)."""
        X = np.asarray(X, float)
        constant = np.ptp(X, axis=0) == 0  # exact: the deviation of equal numbers may round to 1e-17
        return cls(np.where(constant, X[0], X.mean(axis=0)), np.where(constant, 1.0, X.std(axis=0)))

    def apply(self, X):
        """To standard units."""
        return (X - self.center) / self.scale

    def undo(self, X):
        """Back to the units of the data."""
        return X * self.scale + self.center

    def undo_scale(self, std):
        """A standard deviation or a width, back to the units of the data."""
        return std * self.scale
