"""A watchdog for training by chains: where it goes wrong, weights, optimizer and buffer go back together.

Training of energies fails suddenly: the energies of data and chains part, or stop being numbers. After every chunk of
`run` the watchdog checks the chunk; the states of a good chunk are remembered, a bad chunk is undone. The steps
counted go on, so that what follows draws other random numbers. It never replaces a bad number by a good one.
"""

from __future__ import annotations

import warnings

import jax
import numpy as np

from langevin.core.types import Progress, State
from langevin.energy.cooperative import Cooperative
from langevin.energy.likelihood import EnergyLikelihood


class Watchdog:
    """A callback for `run` that rolls back.

    limit: the largest gap allowed between mean energies of data and chains, over the last tenth of a chunk, in nats.
    patience: how many chunks in a row may be undone before training is stopped.
    good: the last states that were well; what training gives if it is stopped.
    """

    def __init__(self, limit: float = 1e3, patience: int = 3):
        self.limit, self.patience = limit, patience
        self.good: State | None = None
        self.undone, self.row = 0, 0

    def __call__(self, progress: Progress) -> Progress:
        done, states = progress.done, progress.states
        if self.fine(progress):
            self.good, self.row = states, 0
            return progress
        if self.good is None or self.row == self.patience:
            warnings.warn(
                f"Watchdog: training went wrong {self.row + 1} times in a row and is stopped after {done} draws; "
                "lower the learning rate, or take more steps of the chains.",
                stacklevel=2,
            )
            return progress._replace(states=self.good or states, stop=True)
        self.undone, self.row = self.undone + 1, self.row + 1
        warnings.warn(f"Watchdog: weights and chains go back to where they were before draw {done}.", stacklevel=2)
        return progress._replace(states=self.good._replace(count=states.count))

    def fine(self, progress: Progress) -> bool:
        """Whether every number of the state is finite, and the energies of data and chains are close."""
        inexact = (u for u in jax.tree.leaves(progress.states) if np.issubdtype(u.dtype, np.inexact))
        if not all(bool(np.isfinite(np.asarray(u)).all()) for u in inexact):
            return False
        gap = np.asarray(progress.info.log_density)
        last = gap[:, -max(1, gap.shape[1] // 10) :]
        target = progress.target
        temperature = target.energy.temperature if isinstance(target, (EnergyLikelihood, Cooperative)) else 1.0
        return bool(np.all(np.abs(last.mean(1)) < self.limit * float(temperature)))
