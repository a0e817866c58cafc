"""Diffusion models: forward processes, losses, samplers, likelihoods, guidance, and critically-damped Langevin."""

from langevin.diffusion.cld import CLD, HSM, SSCS
from langevin.diffusion.denoiser import Denoiser
from langevin.diffusion.guidance import Classifier, ClassifierFree
from langevin.diffusion.likelihood import bits_per_dim, log_prob
from langevin.diffusion.loss import DSM
from langevin.diffusion.net import TimeMLP
from langevin.diffusion.ode import DPMSolver, Heun, ProbabilityFlow
from langevin.diffusion.sample import EulerMaruyama, PredictorCorrector, generate
from langevin.diffusion.score import NCSN, Denoising, ScoreMatching, Sliced
from langevin.diffusion.sde import EDM, VE, VP, SubVP

__all__ = [
    "CLD",
    "DSM",
    "EDM",
    "HSM",
    "NCSN",
    "SSCS",
    "VE",
    "VP",
    "Classifier",
    "ClassifierFree",
    "DPMSolver",
    "Denoiser",
    "Denoising",
    "EulerMaruyama",
    "Heun",
    "PredictorCorrector",
    "ProbabilityFlow",
    "ScoreMatching",
    "Sliced",
    "SubVP",
    "TimeMLP",
    "bits_per_dim",
    "generate",
    "log_prob",
]
