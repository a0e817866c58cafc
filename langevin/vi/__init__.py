"""Variational inference: families of distributions, objectives, and fits that are posteriors like any other.

`fit` fits a family to a target and draws from it. A family is one file in `families`, an objective one in `objectives`;
`Variational` is their target, whose position is the family's parameters, and `Fit` the tuner that plans are made of.
"""

from langevin.vi.bound import bound
from langevin.vi.families.delta import Delta
from langevin.vi.families.dropout import Dropout
from langevin.vi.families.flow import Flow
from langevin.vi.families.full_rank import FullRank
from langevin.vi.families.implicit import Implicit
from langevin.vi.families.low_rank import LowRank
from langevin.vi.families.matrix_normal import MatrixNormal
from langevin.vi.families.mean_field import MeanField
from langevin.vi.families.mixture import Mixture
from langevin.vi.families.radial import Radial
from langevin.vi.families.semi_implicit import SemiImplicit
from langevin.vi.families.singular import Product, RankOne
from langevin.vi.family import Approximation, Family
from langevin.vi.fit import Fit, fit
from langevin.vi.independent import Independent
from langevin.vi.objectives.black_box_alpha import BlackBoxAlpha
from langevin.vi.objectives.chi import Chi
from langevin.vi.objectives.elbo import ELBO
from langevin.vi.objectives.inclusive import InclusiveKL
from langevin.vi.objectives.renyi import IWAE, Renyi
from langevin.vi.objectives.stein_elbo import SteinELBO
from langevin.vi.quality import approximation, log_weights, pareto_k
from langevin.vi.variational import Variational

__all__ = [
    "ELBO",
    "IWAE",
    "Approximation",
    "BlackBoxAlpha",
    "Chi",
    "Delta",
    "Dropout",
    "Family",
    "Fit",
    "Flow",
    "FullRank",
    "Implicit",
    "InclusiveKL",
    "Independent",
    "LowRank",
    "MatrixNormal",
    "MeanField",
    "Mixture",
    "Product",
    "Radial",
    "RankOne",
    "Renyi",
    "SemiImplicit",
    "SteinELBO",
    "Variational",
    "approximation",
    "bound",
    "fit",
    "log_weights",
    "pareto_k",
]
