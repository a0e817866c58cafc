"""Charts of a posterior or a fitted estimator on Matplotlib: each returns its axes and shows nothing by itself."""

from langevin.plot.chains import energy, forest, rank, trace
from langevin.plot.predictions import calibration, predictive_band

__all__ = [
    "calibration",
    "energy",
    "forest",
    "predictive_band",
    "rank",
    "trace",
]
