"""Energy-based models: p ∝ e^{f/T}, trained with chains or without.

`energy` has the model, `likelihood` maximum likelihood by chains (contrastive divergence, persistent, replay),
`losses` training without chains, `cooperative` a generator beside the energy, `watch` a watchdog over training.
"""

from langevin.energy.chains import Around, Uniform
from langevin.energy.cooperative import Cooperative
from langevin.energy.energy import Energy
from langevin.energy.likelihood import EnergyLikelihood
from langevin.energy.losses import NCE, CrossEntropy, EnergyDiscrepancy, Joint
from langevin.energy.watch import Watchdog
from langevin.energy.weigh import log_z

__all__ = [
    "NCE",
    "Around",
    "Cooperative",
    "CrossEntropy",
    "Energy",
    "EnergyDiscrepancy",
    "EnergyLikelihood",
    "Joint",
    "Uniform",
    "Watchdog",
    "log_z",
]
