"""What the experiments on diffusion models share: training by the loop, and a figure of points."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np

from langevin.core.callbacks import ProgressBar
from langevin.nets.train import train
from langevin.targets.loss import Loss


def halves(net: eqx.Module) -> tuple[Any, Any]:
    """The arrays of a network, and the rest."""
    return eqx.partition(net, eqx.is_inexact_array)


def trained(key, loss, rows, start, *, steps: int, batch: int, rate: float = 1e-3, decay: float = 0.999):
    """The running mean of the arrays along a training run, and the loss of every step (step,)."""
    target, start = Loss(loss, rows, batch=batch), jax.tree.map(lambda u: u[None], start)
    how = dict(rate=rate, last=0.01, decay=decay, thin=1, callbacks=(ProgressBar(steps),))
    done = train(key, target, start, steps=steps, **how)
    return done.of(0), -np.asarray(done.notes[0], np.float64)


def order_of(steps, gaps) -> float:
    """The slope of log gap against −log steps."""
    return float(-np.polyfit(np.log(steps), np.log(gaps), 1)[0])


def scatter(axis, points, title: str, reach: float) -> None:
    """A panel of points in the plane."""
    axis.scatter(*np.asarray(points)[:4000].T, s=1.5, alpha=0.4, color="#2a6f97", linewidths=0, rasterized=True)
    axis.set(xlim=(-reach, reach), ylim=(-reach, reach), xticks=[], yticks=[], aspect="equal")
    axis.set_title(title, fontsize=9)
