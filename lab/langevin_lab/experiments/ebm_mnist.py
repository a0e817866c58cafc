"""An energy of MNIST, 28×28 (--data cifar10: of CIFAR-10), by persistent Langevin chains; `_pictures` says how.

The quick size has digits of 8×8 in its place. The cpu size is short: it shows that the code runs, not what it can do.
Photographs have half the noise, and steps of half the size: what they show is finer than strokes.
"""

from __future__ import annotations

from dataclasses import replace

from langevin.core.result import Result
from langevin_lab.experiments import _pictures
from langevin_lab.experiments._pictures import Scale

SCALES = {
    "quick": Scale((8, 16), 100, 4, 16, 128, 1e-3, ways=("ula",), rungs=100),
    "cpu": Scale((16, 32, 32), 600, 20, 64, 1024, 2e-4, epsilon=0.04, jitter=0.1, ways=("ula",)),
    "gpu": Scale((32, 64, 128), 12_000, 40, 128, 4096, 1e-4, epsilon=0.04, jitter=0.1, ways=("ula",), rungs=16_000),
}


def run(size: str, seed: int, *, data: str | None = None) -> Result:
    name, scale = data or ("digits" if size == "quick" else "mnist"), SCALES[size]
    if name == "cifar10":
        scale = replace(scale, epsilon=scale.epsilon / 2, jitter=scale.jitter / 2)
    return _pictures.run("ebm-mnist", name, scale, seed)
