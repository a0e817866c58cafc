"""Charts of a posterior, a fitted estimator or a prior on Matplotlib: each returns its axes and shows nothing."""

from langevin.plot.chains import energy, forest, rank, trace
from langevin.plot.predictions import calibration, predictive_band
from langevin.plot.prior import prior_predictive

__all__ = [
    "calibration",
    "energy",
    "forest",
    "predictive_band",
    "prior_predictive",
    "rank",
    "trace",
]
