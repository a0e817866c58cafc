"""A callback that shows an estimator while it is sampled."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from typing import Any

from langevin.core.posterior import Posterior
from langevin.core.provenance import Provenance
from langevin.core.run import join
from langevin.core.types import Progress


class Snapshot:
    """A callback that calls `watch` with the estimator as it would be if sampling ended here, uncalibrated.

    before: draws and Info that it has already, where a fit goes on; seconds: what they took.
    """

    def __init__(self, estimator: Any, watch: Callable[[Any], Any], before: Sequence = (), seconds: float = 0.0):
        self.estimator, self.watch, self.began = estimator, watch, time.perf_counter() - seconds
        self.pieces = list(before)

    def __call__(self, progress: Progress) -> Progress:
        if progress.done > 0:
            self.pieces.append((progress.kept, progress.info))
            now = copy.copy(self.estimator)
            now.seconds_ = time.perf_counter() - self.began
            known = Provenance.now(seconds=now.seconds_)
            now.posterior_ = Posterior(*join(self.pieces), progress.states, progress.kernel, known)
            self.watch(now)
        return progress
