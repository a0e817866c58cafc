"""Latent variable models: decoders, encoders, bounds of log p(x), and MCMC inside and after training.

`dense` or `convolutional` give a model, an encoder and weights; `fit` trains them by any of the objectives here or of
`lv.vi`, a run of `Optimize` on the target `Autoencoder`, and gives a `VAE`. `log_likelihood` weighs examples, `refine`
and `gaps` look at posteriors of single examples, `DecoderPosterior` samples the decoder's weights. `PPCA` is the model
in which everything is known.
"""

from langevin.vae.autoencoder import Autoencoder, binarize
from langevin.vae.fit import VAE, fit
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
from langevin.vae.refine import Gaps, gaps, refine
from langevin.vae.sampled import DecoderPosterior, mixture
from langevin.vae.semi_supervised import SemiSupervised
from langevin.vae.weigh import Bracket, Importance, LogLikelihoods, bracket, log_likelihood

__all__ = [
    "PPCA",
    "SUMO",
    "VAE",
    "AmortizedMCMC",
    "Annealed",
    "AnnealedLangevin",
    "Autoencoder",
    "Bernoulli",
    "BetaELBO",
    "Bracket",
    "Categorical",
    "Contrastive",
    "DecoderPosterior",
    "DiscretizedLogistic",
    "Encoder",
    "ExpectedTarget",
    "Gaps",
    "Gaussian",
    "Hamiltonian",
    "Hoffman",
    "Importance",
    "LatentModel",
    "LatentPosterior",
    "LogLikelihoods",
    "Nets",
    "Posteriors",
    "ReverseNets",
    "SemiSupervised",
    "SteinEntropy",
    "Thermodynamic",
    "as_nets",
    "binarize",
    "bracket",
    "convolutional",
    "dense",
    "fit",
    "gaps",
    "log_likelihood",
    "mixture",
    "refine",
]
