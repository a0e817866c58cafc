"""The main job on an embedded table: a Bayesian neural network on scikit-learn's diabetes.

An MLP 10-16-1 with N(0, 1) priors and a learned noise level, on standardised data: 80 % to train, 10 % to stop the
ascent early, 10 % to judge. Three answers to the same question: the deep ensemble that starts the chains, mini-batch
Langevin dynamics (BAOAB splitting), and HMC as the exact reference. Every setting was fixed before the test part was
looked at.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from langevin.core import noise
from langevin.core.posterior import sample
from langevin.core.record import record, replace
from langevin.core.run import begin_all
from langevin.core.visits import Progress
from langevin.data import tables
from langevin.diagnostics import calibration, convergence, uncertainty
from langevin.diagnostics.result import Result
from langevin.models.bnn import Likelihood, bnn
from langevin.models.nets import MLP
from langevin.samplers.hmc import HMC
from langevin.samplers.underdamped import Underdamped
from langevin.tune.warm_start import warm_start
from langevin.tune.window import window

LEVEL = 0.9


@record
class HeldOut:
    """The log likelihood of the validation part, by which the ascent is stopped.

    likelihood: of the network.
    data: (x, y).
    """

    likelihood: Likelihood
    data: Any

    def __call__(self, position):
        return jnp.sum(self.likelihood(position, self.data))


def run(size: str, seed: int, *, quiet: bool = True) -> Result:
    table = tables.load("diabetes")
    train, validation, test = tables.split(table, seed, (0.8, 0.1, 0.1))
    x_scale, y_scale = tables.Standard.fit(table.X[train]), tables.Standard.fit(table.y[train][:, None])
    x = np.asarray(x_scale.apply(table.X), np.float32)
    y = np.asarray(y_scale.apply(table.y[:, None])[:, 0], np.float32)
    chains, draws = (4, 100) if size == "quick" else (8, 500)
    model = bnn(partial(MLP, (x.shape[1], 16, 1), activation=jnp.tanh), (x[train], y[train]), batch=64, order="epoch")
    keys = jax.random.split(noise.key(seed), 6)

    score = HeldOut(model.target.log_likelihood, (jnp.asarray(x[validation]), jnp.asarray(y[validation])))
    began = time.perf_counter()
    start = warm_start(keys[0], model.target, model.starts(keys[1], chains), steps=3000, score=score)
    ensemble_seconds = time.perf_counter() - began

    bar = lambda: (Progress(draws, quiet=quiet),)
    split = sample(
        keys[2], Underdamped(step_size=0.01, friction=5.0), model.target, start,
        draws=draws, warmup=draws // 2, thin=80, chunk=50, visits=bar(),
    )  # fmt: skip
    exact = replace(model.target, batch=None)
    states = begin_all(keys[3], HMC(0.01, n_leapfrog=50), exact, start)
    kernel, states = window(keys[4], HMC(0.01, n_leapfrog=50), exact, states, steps=300)
    reference = sample(keys[5], kernel, exact, states, draws=draws, chunk=50, visits=bar())

    alone = jax.vmap(lambda p: model.predict(p, x[test]))(start)
    ensemble = {k: np.asarray(v) for k, v in alone.items()}
    rows = [dict(method="deep ensemble", **_scores(y[test], ensemble, y_scale), seconds=ensemble_seconds)]
    said: list[str] = []
    for name, posterior in (("mini-batch Langevin", split), ("HMC (exact)", reference)):
        predicted = posterior.predict(model.predict, x[test])
        checked = convergence.diagnose({"predictions": predicted["mean"]}, posterior.info)
        said += [f"{name}: {words}" for words in checked.warnings]
        flat = {k: v.reshape(-1, v.shape[-1]) for k, v in predicted.items()}
        rows.append(
            dict(
                method=name,
                **_scores(y[test], flat, y_scale),
                rhat=float(np.max(checked.rhat["predictions"])),
                ess=float(np.min(checked.ess_bulk["predictions"])),
                seconds=posterior.provenance.seconds,
            )
        )
    best = rows[1]
    figures = {k: best[k] for k in ("rmse", "nll", "coverage", "rhat", "ess")}
    result = Result("demo", figures, rows, notes=said)
    result.drawing = partial(draw, y[test], flat, y_scale, rows)
    return result


def _scores(y, predicted, scale) -> dict[str, float]:
    """RMSE in the target's own unit, NLL per example in it, coverage of the central 90% intervals."""
    unit = float(scale.undo_scale(np.ones((1, 1)))[0, 0])
    lower, upper = calibration.intervals(predicted["mean"], predicted["std"], [LEVEL])
    return dict(
        rmse=unit * calibration.rmse(y, predicted["mean"].mean(0)),
        nll=calibration.nll_gaussian(y, predicted["mean"], predicted["std"]) + float(np.log(unit)),
        crps=unit * calibration.crps_mixture(y, predicted["mean"], predicted["std"]),
        coverage=float(np.squeeze(calibration.coverage(y, lower[0], upper[0]))),
    )


def draw(y, predicted, scale, rows, path: str) -> None:
    """Predictions with their intervals, the calibration curve, and what is noise and what is ignorance."""
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    ink, blue, amber = "#22303c", "#2a6f97", "#e09f3e"
    undo = lambda u: scale.undo(np.asarray(u)[:, None])[:, 0]
    lower, upper = calibration.intervals(predicted["mean"], predicted["std"], [LEVEL])
    middle = predicted["mean"].mean(0)
    order = np.argsort(middle)
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")

    place = np.arange(len(y))
    axes[0].fill_between(
        place, undo(lower[0])[order], undo(upper[0])[order], color=blue, alpha=0.18, lw=0, label="90% interval"
    )
    axes[0].plot(place, undo(middle)[order], color=blue, lw=1.6, label="predicted mean")
    axes[0].plot(place, undo(y)[order], "o", ms=4, color=ink, label="observed")
    axes[0].set(
        xlabel="test patient, sorted by prediction",
        ylabel="disease progression",
        title="Predictions with their intervals",
    )
    axes[0].legend(frameon=False, loc="upper left")

    levels = np.linspace(0.02, 0.98, 49)
    low, high = calibration.intervals(predicted["mean"], predicted["std"], levels)
    found = [np.mean((y >= a) & (y <= b)) for a, b in zip(low, high, strict=True)]
    spread = 1.96 * np.sqrt(levels * (1 - levels) / len(y))
    axes[1].fill_between(levels, levels - spread, levels + spread, color="0.9", lw=0, label="95% by chance")
    axes[1].plot([0, 1], [0, 1], color="0.6", lw=1)
    axes[1].plot(levels, found, color=blue, lw=2, label="measured")
    axes[1].set(
        xlabel="stated probability of the interval",
        ylabel="share of test patients inside",
        title="Calibration",
        xlim=(0, 1),
        ylim=(0, 1),
    )
    axes[1].legend(frameon=False, loc="upper left")

    parts = uncertainty.variances(predicted["mean"], predicted["std"])
    unit = float(scale.undo_scale(np.ones((1, 1)))[0, 0])
    aleatoric, epistemic = (unit * np.sqrt(u[order]) for u in (parts.aleatoric, parts.epistemic))
    axes[2].plot(place, aleatoric, color=amber, lw=2, label="aleatoric (noise in the data)")
    axes[2].plot(place, epistemic, color=blue, lw=2, label="epistemic (what the net does not know)")
    axes[2].set(
        xlabel="test patient, sorted by prediction",
        ylabel="standard deviation",
        title="Two kinds of uncertainty",
        ylim=(0, None),
    )
    axes[2].legend(frameon=False)
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    r = rows[-1]
    figure.suptitle(
        f"{r['method']}: RMSE {r['rmse']:.1f}, NLL {r['nll']:.2f}, {r['coverage']:.0%} inside 90% intervals",
        fontsize=11,
    )
    figure.savefig(path, dpi=150)
    plt.close(figure)
