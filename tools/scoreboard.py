"""The scoreboard: comparisons with other libraries, from recorded JSON files to one page and one JSON file.

    python tools/scoreboard.py            join what lab/results/bench holds
    python tools/scoreboard.py --run      measure first what is quick (make scoreboard)

A comparison that fails or whose peer is missing leaves its row out or says "not installed"; the others go on.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from langevin_lab.scoreboard import SECTIONS, Section, page

ROOT = Path(__file__).parents[1]
BENCH, PAGE, JSON = ROOT / "lab/results/bench", ROOT / "docs/scoreboard.md", ROOT / "lab/results/scoreboard.json"
PEERS = (
    *("blackjax", "numpyro", "nutpie", "posteriors", "laplace-torch", "torch-uncertainty", "sklearn-contrib-bde"),
    *("torchebm", "dynesty", "torch", "jax", "jaxlib", "numpy", "langevin"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="store_true", help="measure nuts, steps, laws and tables first")
    parser.add_argument("--size", default="cpu", help="of the measurements: quick or cpu")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:  # first all, then all into the tree: a record names a clean commit
        failed = [s.name for s in SECTIONS if chosen.run and s.run and not measured(s, chosen.size, Path(folder))]
        for file in Path(folder).glob("*.json"):
            shutil.copy(file, BENCH)
    bodies = {s.name: found for s in SECTIONS if (found := recorded(s))}
    body = dict(machine=machine(), versions=versions(), failed=failed, sections=bodies)
    JSON.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(bodies, body))
    print(f"{PAGE.relative_to(ROOT)} and {JSON.relative_to(ROOT)}: {', '.join(bodies)}")
    if failed:
        print(f"not measured now, recorded figures are kept: {', '.join(failed)}", file=sys.stderr)


def recorded(section: Section) -> dict[str, Any]:
    """The recorded file of a section, or its parts, `NAME-*.json`, one after the other; empty where there is none."""
    whole = BENCH / section.file
    files = [whole] if whole.is_file() else sorted(BENCH.glob(f"{whole.stem}-*.json"))
    parts = [json.loads(file.read_text()) for file in files]
    if not parts:
        return {}
    past = parts[0]["provenance"] | {"seconds": sum(part["provenance"]["seconds"] for part in parts)}
    return parts[0] | {"table": [row for part in parts for row in part["table"]], "provenance": past}


def measured(section: Section, size: str, folder: Path) -> bool:
    """Run one benchmark in a process of its own, and write what it found to the folder."""
    command = [sys.executable, "-m", "langevin.cli", "bench", section.name, "--size", size]
    try:
        done = subprocess.run([*command, "--json", str(folder / section.file)], cwd=ROOT, timeout=600)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def machine() -> dict[str, Any]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    return dict(processor=name, cores=os.cpu_count(), system=platform.system(), python=platform.python_version())


def versions() -> dict[str, str]:
    found = {}
    for name in PEERS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    apart = sorted((ROOT / ".venv-bde").glob("lib/*/site-packages/sklearn_contrib_bde-*.dist-info"))
    if apart:  # in an environment of its own
        found["sklearn-contrib-bde"] = apart[0].name.split("-")[1]
    return found


if __name__ == "__main__":
    main()
