"""The regression of the differentiable-AIS paper, number for number, so that its figures can be met to four digits.

n = 10,000, d = 10: X = 0.1 N(0, 1), y = X w + N(0, 1), w ~ N(0, I); with the prior N(0, I) and σ = 1 its log evidence
is −14260.22038655293. Drawn once by JAX in float64 from key 2021, `jax_threefry_partitionable` off, and kept as data.

References
----------
Zhang, Hsu, Li, Finn & Grosse (2021), Differentiable annealed importance sampling, §5.1, and its released code.
"""

from __future__ import annotations

from importlib import resources

import numpy as np

LOG_Z = -14260.22038655293


def load() -> tuple[np.ndarray, np.ndarray]:
    """X (10000, 10) and y (10000,), float64."""
    with resources.as_file(resources.files("langevin.data") / "regression.npz") as path, np.load(path) as file:
        return file["X"], file["y"]
