"""Priors of Bayesian networks, one a file, and what makes one of a name or of a number."""

from __future__ import annotations

from typing import Any

from langevin.nets.priors.gated import GatedPrior
from langevin.nets.priors.gaussian_process import SquaredExponential, distance_to_gp, fit_to_gp
from langevin.nets.priors.hierarchical import HierarchicalPrior
from langevin.nets.priors.horseshoe import HorseshoePrior
from langevin.nets.priors.laplace import LaplacePrior
from langevin.nets.priors.normal import NormalPrior
from langevin.nets.priors.prior import Prior
from langevin.nets.priors.regularized_horseshoe import RegularizedHorseshoePrior
from langevin.nets.priors.spike_and_slab import SpikeAndSlabPrior
from langevin.nets.priors.student_t import StudentTPrior

__all__ = [
    "PRIORS",
    "GatedPrior",
    "HierarchicalPrior",
    "HorseshoePrior",
    "LaplacePrior",
    "NormalPrior",
    "Prior",
    "RegularizedHorseshoePrior",
    "SpikeAndSlabPrior",
    "SquaredExponential",
    "StudentTPrior",
    "distance_to_gp",
    "fit_to_gp",
    "prior_of",
]

PRIORS: dict[str, Any] = dict(
    fan_in=NormalPrior("fan_in"),
    hierarchical=HierarchicalPrior(),
    horseshoe=HorseshoePrior(),
    regularized_horseshoe=RegularizedHorseshoePrior(),
    laplace=LaplacePrior(),
    student_t=StudentTPrior(),
    spike_and_slab=SpikeAndSlabPrior(),
    gated=GatedPrior(),
)


def prior_of(what: Any, who: str = "bnn") -> Prior:
    """The prior of a name, a number (a standard deviation), a dict of path patterns, or a prior itself."""
    if isinstance(what, Prior):
        return what
    if isinstance(what, str) and what in PRIORS:
        return PRIORS[what]
    if isinstance(what, (str, type)) or what is None or (callable(what) and not isinstance(what, dict)):
        names = ", ".join(PRIORS)
        shown = what.__name__ + ", a class" if isinstance(what, type) else repr(what)
        raise ValueError(
            f"{who}: prior is {shown}; it must be a number, 'fan_in', a dict of path patterns, a prior such as "
            f"HorseshoePrior(), or a name: {names}."
        )
    return NormalPrior(what)
