"""Latent variable models: decoders, encoders, bounds of log p(x), and MCMC inside and after training.

`dense` or `convolutional` give a model, an encoder and weights; `Autoencoder` is the target that trains them by any of
the objectives here or of `lv.vi`; `PPCA` is the model in which everything is known.
"""

from langevin.vae.autoencoder import Autoencoder, binarize
from langevin.vae.likelihoods import Bernoulli, Categorical, DiscretizedLogistic, Gaussian
from langevin.vae.model import Encoder, LatentModel, LatentPosterior, Posteriors
from langevin.vae.nets import Nets, as_nets, convolutional, dense
from langevin.vae.objectives.amortized import AmortizedMCMC
from langevin.vae.objectives.annealed import Annealed
from langevin.vae.objectives.beta import BetaELBO
from langevin.vae.objectives.contrastive import Contrastive
from langevin.vae.objectives.expected_target import ExpectedTarget
from langevin.vae.objectives.hamiltonian import Hamiltonian
from langevin.vae.objectives.hoffman import Hoffman
from langevin.vae.objectives.langevin import AnnealedLangevin
from langevin.vae.objectives.reverse import ReverseNets
from langevin.vae.objectives.stein_entropy import SteinEntropy
from langevin.vae.objectives.sumo import SUMO
from langevin.vae.objectives.thermodynamic import Thermodynamic
from langevin.vae.ppca import PPCA

__all__ = [
    "PPCA",
    "SUMO",
    "AmortizedMCMC",
    "Annealed",
    "AnnealedLangevin",
    "Autoencoder",
    "Bernoulli",
    "BetaELBO",
    "Categorical",
    "Contrastive",
    "DiscretizedLogistic",
    "Encoder",
    "ExpectedTarget",
    "Gaussian",
    "Hamiltonian",
    "Hoffman",
    "LatentModel",
    "LatentPosterior",
    "Nets",
    "Posteriors",
    "ReverseNets",
    "SteinEntropy",
    "Thermodynamic",
    "as_nets",
    "binarize",
    "convolutional",
    "dense",
]
