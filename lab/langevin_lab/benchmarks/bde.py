"""A Bayesian network on a table against sklearn-contrib-bde (MILE, full batch): how good, and in what time.

Both fit the same net, four layers of 16 ReLU with a mean and a deviation at the end, to the same 80 % of the table and
are judged on the rest, in units of standardised targets, with three seeds in turns. The peer runs in the environment
`.venv-bde` as in the benchmark of its paper (Arvanitis et al. 2026, arXiv:2605.14146): 10 members, 50,000 steps of
warm-up and 1000 more, every tenth kept. Ours is the plan "mile", of 10 members too. Both go over as many host devices
as there are cores, and seconds are those of a fit in a fresh process, compilation included, imports not.

On a table where the peer's run would take over an hour only a tenth of its steps is timed, and the seconds of these
steps count ten times; its scores are then its paper's. That reports the likelihood of one normal with the mean and
deviation of the predictive mixture (`nll_normal`), so ours is compared by the same there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from langevin.core import noise
from langevin.core.result import Result
from langevin.data import tables
from langevin.nets.bnn import bnn
from langevin.nets.mlp import MLP
from langevin.tune.plan import PLANS
from langevin_lab.benchmarks import bde_peer

PYTHON = Path(__file__).parents[3] / ".venv-bde" / "bin" / "python"
FULL: dict[str, Any] = dict(members=10, hidden=[16] * 4, epochs=1200, warmup=50_000, steps=1000, thinning=10)
QUICK: dict[str, Any] = dict(members=2, hidden=[16] * 4, epochs=20, warmup=200, steps=200, thinning=10)
PUBLISHED = {"bikesharing": dict(nll_normal=-0.7315, rmse=0.2261)}  # of runs that take over an hour
PART = 10  # how many times fewer steps are timed there


def split(table: tables.Table) -> dict[str, np.ndarray]:
    """x_train, y_train, x_test, y_test of the peer's benchmark, standardised by the training part."""
    x, x_test, y, y_test = train_test_split(table.X, table.y[:, None], test_size=0.2, random_state=42)
    of_x, of_y = StandardScaler().fit(x), StandardScaler().fit(y)
    parts = dict(x_train=of_x.transform(x), x_test=of_x.transform(x_test))
    return parts | dict(y_train=of_y.transform(y)[:, 0], y_test=of_y.transform(y_test)[:, 0])


def fitted(x_train, y_train, x_test, y_test, seed: int, *, chains: int = 10) -> dict[str, float]:
    """nll, nll_normal and rmse (`bde_peer.scores`) of the plan "mile", and the seconds of its fit with compilation."""
    began = time.perf_counter()
    narrow = lambda u: np.asarray(u, np.float32)
    k_start, k_fit = jax.random.split(noise.key(seed))
    net = partial(MLP, (x_train.shape[1], *FULL["hidden"], 2))
    model = bnn(net, (narrow(x_train), narrow(y_train)), kind="heteroscedastic")
    posterior = PLANS["mile"](k_fit, model.target, model.starts(k_start, chains))
    seconds = time.perf_counter() - began
    said = posterior.predict(model.predict, narrow(x_test))
    mean, deviation = (np.asarray(said[k]).reshape(-1, len(x_test)) for k in ("mean", "std"))
    return bde_peer.scores(mean, deviation, y_test) | dict(seconds=seconds)


def apart(command: list[str], parts: dict[str, np.ndarray], options: dict) -> dict:
    """What a command prints of one fit in a process of its own, given the data as a file and options as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "split.npz"
        np.savez(file, **parts)
        done = subprocess.run([*command, str(file), json.dumps(options)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"bench bde: a fit failed.\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def ours(parts: dict[str, np.ndarray], seed: int) -> dict:
    return apart(
        [sys.executable, "-m", "langevin_lab.benchmarks.bde"], parts, dict(seed=seed, devices=os.cpu_count() or 1)
    )


def peer(parts: dict[str, np.ndarray], seed: int, lengths: dict) -> dict:
    if not PYTHON.is_file():
        raise FileNotFoundError(f"bench bde needs its peer's environment {PYTHON.parents[1]}: make setup-bench.")
    devices = min(lengths["members"], os.cpu_count() or 1)  # of 1, 2 and 10 its fastest on 2 cores
    return apart([str(PYTHON), "-P", bde_peer.__file__], parts, lengths | dict(seed=seed, devices=devices))


def run(size: str, seed: int, *, data: str = "airfoil") -> Result:
    table = tables.load(data, task="regression")
    parts, lengths = split(table), QUICK if size == "quick" else FULL
    published = PUBLISHED.get(table.name)
    if published:
        lengths = lengths | dict(warmup=lengths["warmup"] // PART, steps=lengths["steps"] // PART)

    rows = []
    for s in range(seed, seed + (1 if size == "quick" else 3)):
        theirs = peer(parts, s, lengths)
        if published:
            rows.append(_row(s, f"bde, 1/{PART} of the steps", theirs))
            theirs = _whole(theirs) | published
        rows += [_row(s, "bde", theirs), _row(s, "ours", ours(parts, s))]
    return Result("bde", *_figures(rows, table.name, "nll_normal" if published else "nll"), _notes(published))


def _whole(part: dict) -> dict:
    """The seconds of all steps from those of a part: linear, with nothing taken off for compilation."""
    seconds = part["parts"]
    whole = seconds["members"] + PART * (seconds["warmup"] + seconds["draws"])
    return dict(seconds=whole, steps=PART * part["steps"], epochs=part["epochs"])


def _row(seed: int, method: str, scores: dict) -> dict:
    kept = ("nll", "nll_normal", "rmse", "seconds", "steps", "epochs")
    return dict(seed=seed, method=method) | {k: scores[k] for k in kept if k in scores}


def _figures(rows: list[dict], name: str, nll: str) -> tuple[dict, list[dict], dict]:
    column = lambda method, key: np.asarray([row[key] for row in rows if row["method"] == method])
    figures = {
        f"nll_minus_bde_{name}": float(np.mean(column("ours", nll) - column("bde", nll))),
        f"rmse_over_bde_{name}": float(np.mean(column("ours", "rmse") / column("bde", "rmse"))),
        f"ours_over_bde_seconds_{name}": float(np.median(column("ours", "seconds") / column("bde", "seconds"))),
    }
    return figures, rows, {f"nll_minus_bde_{name}": "≤ 0.02", f"ours_over_bde_seconds_{name}": "≤ 0.1"}


def _notes(published: dict | None) -> list[str]:
    if not published:
        return []
    return [
        f"The peer's seconds are {PART} times those of 1/{PART} of its steps, nothing taken off for compilation, plus "
        "those of all its epochs; its scores are its paper's, the likelihood that of one normal."
    ]


if __name__ == "__main__":
    options = json.loads(sys.argv[2])
    jax.config.update("jax_num_cpu_devices", options["devices"])
    print(json.dumps(fitted(**np.load(sys.argv[1]), seed=options["seed"])))
