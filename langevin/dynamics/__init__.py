"""What families of samplers share: the recipe, dynamics in a metric, corrections of Γ, integrators, masses."""

from langevin.dynamics.mass import DenseMetric, DiagonalMetric, IdentityMetric, LowRankMetric
from langevin.dynamics.metrics.block import Block
from langevin.dynamics.metrics.diagonal import RMS, Fixed
from langevin.dynamics.metrics.kronecker import Kronecker
from langevin.dynamics.metrics.monge import MongeMetric
from langevin.dynamics.metrics.position import Position
from langevin.dynamics.metrics.truncated import Truncated
from langevin.dynamics.metrics.windowed import Windowed
from langevin.dynamics.recipe import Recipe

__all__ = [
    "RMS",
    "Block",
    "DenseMetric",
    "DiagonalMetric",
    "Fixed",
    "IdentityMetric",
    "Kronecker",
    "LowRankMetric",
    "MongeMetric",
    "Position",
    "Recipe",
    "Truncated",
    "Windowed",
]
