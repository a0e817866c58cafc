"""Memory of a streaming run: resident size after 10× the draws minus after 1×, each in its own process (Linux).

A network of 52,000 weights, 2 chains, draws streamed to disk in chunks of 50.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

from langevin.core.result import Result

BARS = {"rss_growth_mb": "flat in the number of draws"}

SCRIPT = """
import re, sys
from langevin_lab.benchmarks.overhead import problem
from langevin.core import noise
from langevin.core.run import run
from langevin.samplers.sgld import SGLD

model = problem((256, 128, 128, 10), 32, n=1000)
start = model.starts(noise.key(1), 2)
run(noise.key(0), SGLD(1e-6), model.target, start, draws=int(sys.argv[1]), chunk=50, store=sys.argv[2])
# not ru_maxrss: a child inherits the high-water mark of the process it was forked from
status = open("/proc/self/status").read()
print(*(int(re.search(name + r":\\s+(\\d+)", status)[1]) / 1024 for name in ("VmRSS", "VmHWM")))
"""


def resident(draws: int) -> tuple[float, float]:
    """Resident size at the end and its peak, in MB, of a process that streams that many draws."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", SCRIPT, str(draws), f"{folder}/run"],
            capture_output=True,
            text=True,
            check=True,
        )
    end, peak = map(float, done.stdout.split()[-2:])
    return end, peak


def run(size: str, seed: int) -> Result:
    draws = 50 if size == "quick" else 200
    table = []
    for n in (draws, 10 * draws):
        end, peak = resident(n)
        table.append(dict(draws=n, rss_mb=end, peak_mb=peak, drawn_mb=n * 2 * 52_000 * 4 / 2**20))
    return Result("memory", dict(rss_growth_mb=table[1]["rss_mb"] - table[0]["rss_mb"]), table, BARS)
