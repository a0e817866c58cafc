"""What a user runs on a posterior: convergence, calibration, kinds of uncertainty, comparison, distances of samples."""

from langevin.diagnostics.compare import difference, loo, lppd, waic
from langevin.diagnostics.convergence import Diagnosis, diagnose, ess, mcse, rhat
from langevin.diagnostics.findings import Finding, sentence
from langevin.diagnostics.grid import data_kl, sample_kl
from langevin.diagnostics.stein import ksd
from langevin.diagnostics.uncertainty import entropies, variances
from langevin.diagnostics.virial_temperature import virial_temperature

__all__ = [
    "Diagnosis",
    "Finding",
    "data_kl",
    "diagnose",
    "difference",
    "entropies",
    "ess",
    "ksd",
    "loo",
    "lppd",
    "mcse",
    "rhat",
    "sample_kl",
    "sentence",
    "variances",
    "virial_temperature",
    "waic",
]
