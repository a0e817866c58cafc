"""What a user runs on a posterior: convergence, calibration, kinds of uncertainty, comparison, distances of samples."""

from langevin.diagnostics.acquisition import Batch, bald, batchbald, joint_information, logdet
from langevin.diagnostics.compare import difference, loo, lppd, waic
from langevin.diagnostics.convergence import Diagnosis, diagnose, ess, mcse, rhat
from langevin.diagnostics.disagreement import Estimate, Information, information, mutual_information
from langevin.diagnostics.findings import Finding, sentence
from langevin.diagnostics.grid import data_kl, sample_kl
from langevin.diagnostics.stein import ksd
from langevin.diagnostics.uncertainty import entropies, variances
from langevin.diagnostics.virial_temperature import virial_temperature

__all__ = [
    "Batch",
    "Diagnosis",
    "Estimate",
    "Finding",
    "Information",
    "bald",
    "batchbald",
    "data_kl",
    "diagnose",
    "difference",
    "entropies",
    "ess",
    "information",
    "joint_information",
    "ksd",
    "logdet",
    "loo",
    "lppd",
    "mcse",
    "mutual_information",
    "rhat",
    "sample_kl",
    "sentence",
    "variances",
    "virial_temperature",
    "waic",
]
