"""Memory of a streaming run: peak resident size of 10× the draws minus that of 1×, each in its own process (Linux).

A network of 52,000 weights, 2 chains, draws streamed to disk in chunks of 50.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

from langevin.diagnostics.result import Result

BARS = {"rss_growth_mb": "flat in the number of draws"}

SCRIPT = """
import re, sys
from langevin.benchmarks.overhead import problem
from langevin.core import noise
from langevin.core.run import run
from langevin.samplers.sgld import SGLD

model = problem((256, 128, 128, 10), 32, n=1000)
start = model.starts(noise.key(1), 2)
run(noise.key(0), SGLD(1e-6), model.target, start, draws=int(sys.argv[1]), chunk=50, store=sys.argv[2])
# not ru_maxrss: a child inherits the high-water mark of the process it was forked from
print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024)
"""


def peak(draws: int) -> float:
    """The largest resident size, in MB, of a process that streams that many draws."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", SCRIPT, str(draws), f"{folder}/run"],
            capture_output=True,
            text=True,
            check=True,
        )
    return float(done.stdout.split()[-1])


def run(size: str, seed: int) -> Result:
    draws = 50 if size == "quick" else 200
    few, many = peak(draws), peak(10 * draws)
    table = [dict(draws=draws, peak_mb=few), dict(draws=10 * draws, peak_mb=many)]
    return Result("memory", dict(rss_growth_mb=many - few), table, BARS)
