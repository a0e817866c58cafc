"""scikit-learn estimators for tables."""

from langevin.estimators.classifier import BayesianClassifier
from langevin.estimators.conformal import Conformal
from langevin.estimators.files import load
from langevin.estimators.regressor import BayesianRegressor

__all__ = [
    "BayesianClassifier",
    "BayesianRegressor",
    "Conformal",
    "load",
]
