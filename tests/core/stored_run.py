"""One small run with momentum and an epoch feed; the tests of the store share its compiled program."""

import importlib
import sys

import jax
import numpy as np

from langevin.core import noise
from langevin.core.run import run
from langevin.samplers.sghmc import SGHMC
from langevin.targets.zoo import logistic

KEY = 7
KERNEL = SGHMC(step_size=0.02, friction=2.0)
TARGET = logistic(noise.key(0, impl="hash"), 50, 3, batch=8, order="epoch")
START = np.linspace(-0.5, 0.5, 6, dtype=np.float32).reshape(2, 3)


def go(folder=None, *, kernel=KERNEL, target=TARGET, start=START, draws=40, chunk=8, seed=KEY, **options):
    """One small run with momentum and an epoch feed; all tests share its compiled program."""
    return run(noise.key(seed, impl="hash"), kernel, target, start, draws=draws, chunk=chunk, store=folder, **options)


def same(a, b):
    """Draws, Info and states agree in every bit."""
    loaded = lambda x: x.load() if hasattr(x, "load") else x
    for one, two in zip(map(loaded, a), map(loaded, b), strict=True):
        assert jax.tree.structure(one) == jax.tree.structure(two)
        for u, v in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
            np.testing.assert_array_equal(u, v)


class Failing:
    """A visit that raises after so many draws."""

    def __init__(self, at, error=ZeroDivisionError):
        self.at, self.error = at, error

    def __call__(self, progress):
        if progress.done >= self.at:
            raise self.error
        return progress


def module(tmp_path, monkeypatch, text):
    """A user's module `mine` with this text."""
    (tmp_path / "mine.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    importlib.invalidate_caches()
    return importlib.import_module("mine")
