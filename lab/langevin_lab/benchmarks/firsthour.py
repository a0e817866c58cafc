"""A new user's first hour: import, help, the first draw, a fit of diabetes and predictions of many rows.

Each is measured in a fresh process (Linux): seconds by the wall clock from its start to its end, and the peak of its
resident memory. Times of import, help and first draw are the median of `REPEATS` processes, after one that is not
counted and that fills the caches of the file system.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from langevin.core.result import Result

REPEATS = 3
ROWS = {"quick": 2_000, "cpu": 1_000_000, "gpu": 1_000_000}
COLUMNS = 8
# what a review measured before predict was streamed; the figures here are to be below
BARS = {
    "import_s": "0.07 in the review",
    "first_draw_s": "6 in the review",
    "predict_s": "below 72",
    "predict_peak_mb": "below 1184",
}

FIRST_DRAW = """
import numpy as np
import langevin as lv
target = lv.Density(lambda x: -0.5 * (x @ x))
lv.sample(lv.key(0), lv.SGLD(0.1), target, np.zeros((4, 3), np.float32), draws=1)
"""
# not ru_maxrss: a child inherits the high-water mark of the process it was forked from
PEAK = """
import re, runpy, sys
try:
    {body}
finally:
    status = open("/proc/self/status").read()
    open(sys.argv.pop(), "w").write(re.search(r"VmHWM:\\s+(\\d+)", status)[1])
"""
COMMAND = "sys.argv[:] = ['langevin', *sys.argv[1:]]; from langevin.cli import main; main(sys.argv[1:-1])"


class Measured(NamedTuple):
    """Seconds of a process, and its peak resident memory in MB."""

    seconds: float
    peak_mb: float


def measured(body: str, *words: str) -> Measured:
    """A Python process that runs `body`, with words as its arguments."""
    with tempfile.TemporaryDirectory() as folder:
        peak = Path(folder) / "peak"
        # one variable is not passed on: it would make the tests' many devices of one processor
        env = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
        began = time.perf_counter()
        code = PEAK.format(body=body.strip().replace("\n", "\n    "))
        done = subprocess.run([sys.executable, "-c", code, *words, str(peak)], capture_output=True, text=True, env=env)
        seconds = time.perf_counter() - began
        if done.returncode:
            raise RuntimeError(f"firsthour: a process ended with {done.returncode}: {done.stderr.strip()[-300:]}")
        return Measured(seconds, float(peak.read_text()) / 1024)


def usual(body: str, repeats: int, *words: str) -> Measured:
    """The median of several such processes, after one that is not counted."""
    measured(body, *words)
    each = [measured(body, *words) for _ in range(repeats)]
    return Measured(median(m.seconds for m in each), median(m.peak_mb for m in each))


def generate(path: Path, rows: int, seed: int) -> None:
    """A table of numbers and one column of text, written in blocks."""
    import pandas as pd

    random = np.random.default_rng(seed)
    for begin in range(0, rows, 100_000):
        n = min(100_000, rows - begin)
        x = random.standard_normal((n, COLUMNS))
        frame = pd.DataFrame(x.round(4), columns=[f"x{i}" for i in range(COLUMNS)])
        frame["kind"] = random.choice(["a", "b", "c"], n)
        frame["y"] = (x[:, 0] + np.sin(2 * x[:, 1]) + (frame["kind"] == "a") + 0.3 * random.standard_normal(n)).round(4)
        frame.to_csv(path, mode="a" if begin else "w", header=not begin, index=False)


def run(size: str, seed: int) -> Result:
    quick, rows = size == "quick", ROWS[size]
    repeats = 1 if quick else REPEATS
    bare = usual("pass", repeats)
    taken = {
        "import": usual("import langevin", repeats),
        "help": usual(COMMAND, repeats, "--help"),
        "first_draw": usual(FIRST_DRAW, repeats),
    }
    short = ["--kernel", "sgld", "--step-size", "1e-6", "--draws", "4", "--chains", "2", "--hidden", "4"]
    with tempfile.TemporaryDirectory() as folder:
        small, large, model = (str(Path(folder) / name) for name in ("train.csv", "rows.csv", "model"))
        generate(Path(small), 500, seed)
        generate(Path(large), rows, seed + 1)
        how = ["--seed", str(seed), "--quiet"]
        taken["fit_diabetes"] = measured(COMMAND, "fit", "diabetes", *(short if quick else []), *how)
        measured(COMMAND, "fit", small, "--target", "y", *short, *how, "--out", model)
        out = str(Path(folder) / "predictions.csv")
        taken["predict"] = measured(COMMAND, "predict", model, large, "--out", out, "--quiet")
    figures = {}
    for name, found in taken.items():
        started = bare.seconds if name == "import" else 0.0  # of an import, what Python itself takes is left out
        figures[f"{name}_s"] = found.seconds - started
        figures[f"{name}_peak_mb"] = found.peak_mb
    table = [dict(what=name, seconds=m.seconds, peak_mb=m.peak_mb) for name, m in (("python", bare), *taken.items())]
    table[-1]["rows"] = rows
    return Result("firsthour", figures, table, BARS)
