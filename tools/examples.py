"""Run every example of the gallery, two at a time, and say how long each took; the first that fails ends it.

    python tools/examples.py [--workers 2] [NAME …]

An example runs as a script with Matplotlib's Agg backend. Names are those of files in examples/, without ".py".
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
LIMIT = 600  # seconds of one example


class Failed(Exception):
    """An example ended with an error; the message has its output."""


def run(path: Path) -> float:
    """Seconds that one example takes; Failed with its output if it does not succeed."""
    paths = [str(ROOT), str(ROOT / "lab"), os.environ.get("PYTHONPATH", "")]
    env = os.environ | {"MPLBACKEND": "Agg", "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    began = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, str(path)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{path.name} ran for more than {LIMIT} s.") from None
    if done.returncode:
        raise Failed(f"{path.name} failed with exit code {done.returncode}:\n{done.stdout[-6000:]}")
    return time.perf_counter() - began


def told(path: Path) -> float:
    """`run`, with a line of output."""
    seconds = run(path)
    print(f"{path.stem:24s} {seconds:6.1f} s", flush=True)
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    paths = [EXAMPLES / f"{name}.py" for name in options.names] or sorted(EXAMPLES.glob("*.py"))
    missing = [path.name for path in paths if not path.exists()]
    if missing:
        parser.error(f"examples/ has no {', '.join(missing)}")
    with ThreadPoolExecutor(options.workers) as pool:
        futures = [pool.submit(told, path) for path in paths]
        finished, waiting = wait(futures, return_when=FIRST_EXCEPTION)
        for future in waiting:
            future.cancel()
        errors = [error for future in finished if (error := future.exception())]
    if errors:
        print(errors[0], file=sys.stderr)
        return 1
    print(f"{len(paths)} examples, {sum(future.result() for future in futures):.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
