"""Targets made from targets: posteriors, tempering, paths, constraints, control variates, losses; known densities."""

from langevin.targets.bayes import Bayes
from langevin.targets.control_variates import ControlVariates, Recenter, control_variates
from langevin.targets.densities_2d import densities_2d
from langevin.targets.loss import Loss
from langevin.targets.noisy import Noisy
from langevin.targets.numpyro import from_numpyro
from langevin.targets.path import Annealed, Geometric
from langevin.targets.sum import Sum
from langevin.targets.tempered import Tempered
from langevin.targets.transformed import Interval, Ordered, Positive, Real, Simplex, Transformed

__all__ = [
    "Annealed",
    "Bayes",
    "ControlVariates",
    "Geometric",
    "Interval",
    "Loss",
    "Noisy",
    "Ordered",
    "Positive",
    "Real",
    "Recenter",
    "Simplex",
    "Sum",
    "Tempered",
    "Transformed",
    "control_variates",
    "densities_2d",
    "from_numpyro",
]
