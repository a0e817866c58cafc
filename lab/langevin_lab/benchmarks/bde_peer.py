"""The peer of `bench bde`: one fit of sklearn-contrib-bde (MILE), run with the Python of its own environment.

    .venv-bde/bin/python -P lab/langevin_lab/benchmarks/bde_peer.py SPLIT.npz '{"seed": 0, "members": 10, ...}'

The file holds x_train, y_train, x_test and y_test, standardised. What the lengths leave open is set as in the script
behind the benchmark of the package's paper. One line of JSON is printed: the seconds of `fit`, compilation included,
and of its three parts, the seconds of `predict`, and how good the predictive is. `nll` is that of the mixture of all
members and draws, `nll_normal` that of one normal with the mixture's mean and deviation, which the paper reports.
`-P` keeps the folder of this file, which has a bde.py too, off the path.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib.metadata import version

import numpy as np

PAPER = dict(validation_split=0.15, lr=1e-3, weight_decay=1e-4, patience=20)  # of its benchmark script
PACKAGES = ("sklearn-contrib-bde", "blackjax", "jax", "jaxlib", "numpy", "scikit-learn")


def regressor(options: dict):
    """BdeRegressor that notes when each part of `fit` ends; nothing else of it is changed."""
    import jax
    from bde import BdeRegressor
    from bde.loss import GaussianNLL

    class Timed(BdeRegressor):
        def _build_log_post(self, *args, **kwargs):
            jax.block_until_ready(self._bde.params_e)
            self.ends_ = [time.perf_counter()]
            return super()._build_log_post(*args, **kwargs)

        def _warmup_sampler(self, logpost):
            warm = jax.block_until_ready(super()._warmup_sampler(logpost))
            self.ends_.append(time.perf_counter())
            return warm

    return Timed(
        n_members=options["members"],
        hidden_layers=options["hidden"],
        epochs=options["epochs"],
        warmup_steps=options["warmup"],
        n_samples=options["steps"],
        n_thinning=options["thinning"],
        seed=options["seed"],
        loss=GaussianNLL(),
        **PAPER,
    )


def scores(mean: np.ndarray, deviation: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """How good normals are for y (n,) whose means and deviations (draws, n) the draws give."""
    log_density = -0.5 * ((y - mean) / deviation) ** 2 - np.log(deviation) - 0.5 * np.log(2 * np.pi)
    mixture = np.logaddexp.reduce(log_density, axis=0) - np.log(len(mean))
    center, spread = mean.mean(0), np.sqrt((deviation**2).mean(0) + mean.var(0))
    normal = -0.5 * ((y - center) / spread) ** 2 - np.log(spread) - 0.5 * np.log(2 * np.pi)
    rmse = np.sqrt(((y - center) ** 2).mean())
    return dict(nll=-float(mixture.mean()), nll_normal=-float(normal.mean()), rmse=float(rmse))


def main(file: str, words: str) -> None:
    options = json.loads(words)
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={options['devices']}"
    import jax

    with np.load(file) as data:
        x_train, y_train, x_test, y_test = (data[k] for k in ("x_train", "y_train", "x_test", "y_test"))
    model = regressor(options)

    began = time.perf_counter()
    jax.block_until_ready(model.fit(x_train, y_train).positions_eT_)
    ends = [began, *model.ends_, time.perf_counter()]
    members, warmup, draws = np.diff(ends)
    raw = np.asarray(model.predict(x_test, raw=True), np.float64)
    predict = time.perf_counter() - ends[-1]

    steps = options["warmup"] + options["steps"]
    parts = dict(members=members, warmup=warmup, draws=draws)
    mean, deviation = raw[..., 0], np.logaddexp(raw[..., 1], 0) + 1e-6  # softplus, as in the package
    body = scores(mean.reshape(-1, len(y_test)), deviation.reshape(-1, len(y_test)), y_test) | dict(
        seconds=ends[-1] - began,
        parts={k: round(float(v), 2) for k, v in parts.items()},
        predict=predict,
        steps=steps,
        gradients=2 * steps * options["members"],  # two a step of McLachlan's scheme
        draws=raw.shape[0] * raw.shape[1],
        epochs=max(len(h["epoch"]) for h in model.history().values()),
        devices=jax.local_device_count(),
        versions={name: version(name) for name in PACKAGES},
    )
    print(json.dumps(body))


if __name__ == "__main__":
    main(*sys.argv[1:])
