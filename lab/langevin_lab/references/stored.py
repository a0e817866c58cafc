"""The trusted draws as files: columns as whole numbers of 16 bits between their least and greatest value.

The rounding, at most 1/131,070 of a column's range, is far below the Monte Carlo error of 10,000 draws.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import numpy as np

LEVELS = 65_535


def write(path: Path, draws: np.ndarray) -> None:
    low, high = draws.min(axis=0), draws.max(axis=0)
    code = np.round((draws - low) / (high - low) * LEVELS).astype(np.uint16)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, code=code.T.copy(), low=low, high=high)


def trusted(name: str) -> np.ndarray:
    """Draws (10000, k) of a model's values, in an order without meaning."""
    folder = resources.files("langevin_lab.references") / "draws"
    with resources.as_file(folder / f"{name}.npz") as path, np.load(path) as file:
        return file["low"] + file["code"].T.astype(float) / LEVELS * (file["high"] - file["low"])
