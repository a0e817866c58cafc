"""Callbacks: what the host does between chunks.

A callback takes a `Progress` and returns it, changed or not, or None to stop.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import numpy as np

from langevin.core import moments
from langevin.core.bar import Bar
from langevin.core.progress import Step, note
from langevin.core.types import Progress


def summaries(chunk: Progress, limit: int = 64) -> np.ndarray:
    """(chain, draw, k) numbers to watch: the log density and the first `limit` numbers collected, of a chunk."""
    shape = chunk.info.ok.shape
    leaves = [np.asarray(u, np.float32).reshape(*shape, -1)[..., :limit] for u in jax.tree.leaves(chunk.kept)]
    return np.concatenate([np.asarray(chunk.info.log_density)[..., None], *leaves], axis=-1)[..., : limit + 1]


class Watch:
    """Streaming R̂ and ESS of the log density and of the first numbers kept, over chains that have not diverged."""

    def __init__(self, limit: int = 64):
        self.limit = limit
        self.total: moments.Moments | None = None
        self.alive: np.ndarray | None = None

    def add(self, chunk: Progress) -> None:
        ok = np.all(chunk.info.ok, axis=1)
        self.alive = ok if self.alive is None else self.alive & ok
        with np.errstate(invalid="ignore", over="ignore"):  # a chain that has diverged is left out below
            self.total = moments.merge(self.total, moments.first(summaries(chunk, self.limit)))

    def _living(self) -> moments.Moments | None:
        if self.total is None or self.alive is None or not self.alive.any():
            return None
        t = self.total
        return t._replace(mean=t.mean[self.alive], square=t.square[self.alive], between=t.between[self.alive])

    @property
    def rhat(self) -> float:
        living = self._living()
        values = moments.rhat(living) if living is not None else np.array([np.nan])
        return float(np.nanmax(values)) if np.isfinite(values).any() else float("nan")

    @property
    def ess(self) -> float:
        living = self._living()
        values = moments.ess(living) if living is not None else np.array([np.nan])
        return float(np.nanmin(values)) if np.isfinite(values).any() else float("nan")


class Figures:
    """Tells what to show beside a progress bar: draws per second, acceptance or energy error, R̂ so far."""

    def __init__(self, least: int = 25):
        self.watch, self.began, self.least = Watch(), time.perf_counter(), least

    def __call__(self, progress: Progress) -> Progress:
        if progress.done > 0:
            self.watch.add(progress)
            note(self.describe(progress))
        return progress

    def describe(self, progress: Progress) -> str:
        """The figures in words; R̂ of few draws is far too high, and says nothing."""
        info = progress.info
        # draws of this process: a resumed run has others behind it
        sampled = self.watch.total.count if self.watch.total is not None else 0
        rate = sampled * info.ok.shape[0] / max(time.perf_counter() - self.began, 1e-9)
        parts = [f"{rate:,.0f} draws/s"]
        if np.any(info.acceptance != 1.0):
            parts.append(f"acceptance {np.nanmean(info.acceptance):.2f}")
        elif np.any(info.energy_error != 0.0):
            parts.append(f"energy error {np.nanmean(np.abs(info.energy_error)):.3g}")
        if sampled >= self.least and np.isfinite(self.watch.rhat):
            parts.append(f"R̂ {self.watch.rhat:.3f}")
        return " · ".join(parts)


class ProgressBar(Figures):
    """A progress bar of one run, in a terminal or a notebook: draws per second, R̂ so far, time left.

    draws: of every chain. warmup: draws before those. quiet: show nothing. console: Rich's, to draw on.
    """

    def __init__(self, draws: int, *, warmup: int = 0, quiet: bool = False, console=None):
        super().__init__()
        self.draws, self.warmup = draws, warmup
        stages = {"warm-up": float(warmup), "sample": float(draws)} if warmup else {"sample": 1.0}
        self.bar = Bar(stages, quiet=quiet, console=console)
        self.bar(Step(next(iter(stages)), 0.0))

    def __call__(self, progress: Progress) -> Progress:
        if progress.done <= 0:
            self.bar(Step("warm-up", 1 + progress.done / self.warmup if self.warmup else 0.0))
            return progress
        self.watch.add(progress)
        self.bar(Step("sample", progress.done / self.draws, self.describe(progress)))
        return progress

    def close(self) -> None:
        self.bar.close()


class EarlyStop:
    """Stop when R̂ is below `rhat` and the effective sample size above `ess`, both streaming, after `least` draws."""

    def __init__(self, rhat: float = 1.01, ess: float = 400.0, least: int = 500):
        self.rhat, self.ess, self.least = rhat, ess, least
        self.watch = Watch()

    def remember(self) -> dict:
        return dict(total=self.watch.total, alive=self.watch.alive)

    def restore(self, memory: dict, states: Any) -> None:
        self.watch.total, self.watch.alive = memory["total"], memory["alive"]

    def __call__(self, progress: Progress) -> Progress:
        if progress.done <= 0:
            return progress
        self.watch.add(progress)
        enough = progress.done >= self.least and self.watch.rhat < self.rhat and self.watch.ess > self.ess
        return progress._replace(stop=progress.stop or enough)
