"""An energy of scikit-learn's digits, 8×8, by persistent Langevin chains, adjusted or not, and restarted more often;
`_pictures` says how.
"""

from __future__ import annotations

from langevin.core.result import Result
from langevin_lab.experiments import _pictures
from langevin_lab.experiments._pictures import Scale

WAYS = ("ula", "mala", "restarted")
SCALES = {
    "quick": Scale((8, 16), 100, 4, 16, 128, 1e-3, rungs=100),
    "cpu": Scale((16, 32), 5000, 20, 64, 1024, 1e-3, epsilon=0.05, jitter=0.1, ways=WAYS),
    "gpu": Scale((64, 128), 20_000, 40, 128, 2048, 1e-3, epsilon=0.05, jitter=0.1, ways=WAYS),
}


def run(size: str, seed: int) -> Result:
    return _pictures.run("ebm-digits", "digits", SCALES[size], seed)
