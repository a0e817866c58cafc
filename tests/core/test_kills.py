"""Runs killed at random moments (SIGKILL) and started again: bit for bit the run that was never killed."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from langevin.core.shards import Stored

KERNELS = {
    "sgld": "SGLD(0.02)",
    "sghmc": "SGHMC(0.02, friction=2.0)",
    "psgld": "PSGLD(0.01)",
    "riemannian": "Riemannian(0.01, metric=Block(1.0))",
    "smile": "SMILE(0.05)",
    "cyclical": "Cyclical(SGLD(0.02), period=12)",
    "per chain": "PerChain(spread(SGNHT(0.02), 2))",
    "optimize": "Optimize()",
}

SCRIPT = """
import hashlib, os, sys, time
import jax, numpy as np
jax.config.update("jax_debug_key_reuse", True)
from langevin.core import noise
from langevin.core.kernel import PerChain, spread
from langevin.core.run import run
from langevin.dynamics.metrics.block import Block
from langevin.samplers.optimize import Optimize
from langevin.samplers.psgld import PSGLD
from langevin.samplers.riemannian import Riemannian
from langevin.samplers.sghmc import SGHMC
from langevin.samplers.sgld import SGLD
from langevin.samplers.sgnht import SGNHT
from langevin.samplers.smile import SMILE
from langevin.samplers.wrappers.cyclical import Cyclical
from langevin.targets.zoo import logistic

def slowly(progress):
    time.sleep(float(os.environ["PAUSE"]))
    return progress

# the disk is slow, so that kills land inside writes
fsync = os.fsync
def slow(fd):
    time.sleep(float(os.environ["PAUSE"]) / 4)
    fsync(fd)
os.fsync = slow

print("ready", flush=True)
target = logistic(noise.key(0, impl="hash"), 50, 3, batch=8, order="epoch")
start = np.linspace(-0.5, 0.5, 6, dtype=np.float32).reshape(2, 3)
out = run(noise.key(7, impl="hash"), eval(sys.argv[2]), target, start, draws=40, warmup=8, chunk=2,
          callbacks=(slowly,), store=sys.argv[1])
mark = hashlib.sha256()
for part in (out.kept.load(), out.info.load(), out.states):
    for leaf in jax.tree.leaves(part):
        mark.update(np.asarray(leaf).tobytes())
print(mark.hexdigest(), flush=True)
"""


class Victim:
    """A run in a process of its own, to be killed."""

    def __init__(self, tmp_path, kernel):
        self.script, self.kernel = tmp_path / "victim.py", kernel
        self.script.write_text(SCRIPT)
        self.env = dict(
            os.environ,
            JAX_COMPILATION_CACHE_DIR=str(tmp_path / "cache"),
            JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
            JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES="-1",
            JAX_PLATFORMS="cpu",
            XLA_FLAGS="",
        )

    def start(self, folder, pause):
        command = [sys.executable, str(self.script), str(folder), self.kernel]
        return subprocess.Popen(command, env=dict(self.env, PAUSE=str(pause)), stdout=subprocess.PIPE, text=True)

    def undisturbed(self, folder):
        with self.start(folder, 0) as process:
            assert process.stdout is not None
            out = process.stdout.read()
        assert process.returncode == 0
        return out.split()[-1]

    def killed(self, folder, kills, rng):
        """Kill at random moments until so many have hit; then let it end. How the folder looked at each kill."""
        seen = []
        while len(seen) < kills:
            with self.start(folder, 0.05) as process:
                assert process.stdout is not None
                process.stdout.readline()
                self.wait(folder, rng)
                process.send_signal(signal.SIGKILL)
                process.wait()
                assert process.returncode == -signal.SIGKILL, "the run ended before it was killed: slow it down"
            seen.append(sorted(f.name for f in folder.iterdir()))
        return seen

    def wait(self, folder, rng):
        """Until this process has written some files (a chunk is four), and a random moment more."""
        deadline = time.monotonic() + 60
        for _ in range(rng.randint(1, 14)):
            before = newest(folder)
            while newest(folder) == before and time.monotonic() < deadline:
                time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.1))


def newest(folder):
    """The time of the last change in the folder, but for the lock, which every start writes."""
    try:
        with os.scandir(folder) as entries:
            return max((e.stat().st_mtime_ns for e in entries if e.name != "lock"), default=0)
    except OSError:
        return None


def check_kills(tmp_path, name, kills, seed=0):
    """How many of the kills hit a write."""
    victim, rng = Victim(tmp_path, KERNELS[name]), random.Random(seed)
    truth = victim.undisturbed(tmp_path / "whole")
    seen = victim.killed(tmp_path / "run", kills, rng)
    inside = sum(any(".writing" in n for n in names) for names in seen)
    done = [sum(n.startswith("shard") and n.endswith(".npz") for n in names) for names in seen]
    print(f"{name}: shards at each kill: {done}; inside a write: {inside}")
    assert len(Stored.at(tmp_path / "run")) < 40, "the kills must hit a run under way"
    assert victim.undisturbed(tmp_path / "run") == truth


def test_a_run_killed_three_times_is_the_run_never_killed(tmp_path):
    check_kills(tmp_path, "sghmc", 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_forty_kills_of_eight_kernels(tmp_path, name):
    check_kills(tmp_path, name, 5, seed=list(KERNELS).index(name))
