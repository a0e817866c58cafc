"""Variational inference: families of distributions, objectives, and fits that are posteriors like any other.

`fit` fits a family to a target and draws from it. A family is one file in `families`, an objective one in `objectives`;
`Variational` is their target, whose position is the family's parameters, and `Fit` the tuner that plans are made of.
"""

from langevin.vi.bound import Bound, bound
from langevin.vi.ensemble import Ensemble
from langevin.vi.families.delta import Delta
from langevin.vi.families.dropout import Dropout
from langevin.vi.families.eigenbasis import Eigenbasis
from langevin.vi.families.flow import Flow
from langevin.vi.families.full_rank import FullRank
from langevin.vi.families.implicit import Implicit
from langevin.vi.families.low_rank import LowRank
from langevin.vi.families.matrix_normal import MatrixNormal
from langevin.vi.families.mean_field import MeanField
from langevin.vi.families.mixture import Mixture
from langevin.vi.families.part import Part
from langevin.vi.families.radial import Radial
from langevin.vi.families.semi_implicit import SemiImplicit
from langevin.vi.families.singular import Product, RankOne
from langevin.vi.family import Approximation, Family
from langevin.vi.fit import Fit, fit
from langevin.vi.independent import Independent
from langevin.vi.ivon import IVON, accumulate_gradients, ivon, sample_parameters
from langevin.vi.laplace import Laplace, laplace_evidence, linearized
from langevin.vi.objectives.black_box_alpha import BlackBoxAlpha
from langevin.vi.objectives.chi import Chi
from langevin.vi.objectives.elbo import ELBO
from langevin.vi.objectives.inclusive import InclusiveKL
from langevin.vi.objectives.per_example import FlipoutELBO, LocalELBO
from langevin.vi.objectives.renyi import IWAE, Renyi
from langevin.vi.objectives.stein_elbo import SteinELBO
from langevin.vi.quality import approximation, log_weights, pareto_k
from langevin.vi.svgd import SVGD, FunctionSVGD
from langevin.vi.swag import SWAG
from langevin.vi.variance import GradientVariance, compare_gradients, gradient_variance
from langevin.vi.variational import Variational

__all__ = [
    "ELBO",
    "IVON",
    "IWAE",
    "SVGD",
    "SWAG",
    "Approximation",
    "BlackBoxAlpha",
    "Bound",
    "Chi",
    "Delta",
    "Dropout",
    "Eigenbasis",
    "Ensemble",
    "Family",
    "Fit",
    "FlipoutELBO",
    "Flow",
    "FullRank",
    "FunctionSVGD",
    "GradientVariance",
    "Implicit",
    "InclusiveKL",
    "Independent",
    "Laplace",
    "LocalELBO",
    "LowRank",
    "MatrixNormal",
    "MeanField",
    "Mixture",
    "Part",
    "Product",
    "Radial",
    "RankOne",
    "Renyi",
    "SemiImplicit",
    "SteinELBO",
    "Variational",
    "accumulate_gradients",
    "approximation",
    "bound",
    "compare_gradients",
    "fit",
    "gradient_variance",
    "ivon",
    "laplace_evidence",
    "linearized",
    "log_weights",
    "pareto_k",
    "sample_parameters",
]
