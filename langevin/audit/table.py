"""Every registered sampler against every target: one Markdown table and one JSON file."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from langevin.audit.entry import Audit, audit_kernel
from langevin.audit.subjects import audited, excluded
from langevin.audit.trials import BUILT

HEAD = """# Audit of all samplers

`make audit-table` (`langevin audit --all --size {size} --out docs`) wrote this page and the table that the
library carries. A cell is the total variation to p at the step size in use / the largest |z| to the distribution
claimed, extrapolated to h = 0 (below 5 it is met), by the coordinates that have forgotten their start. Monte
Carlo error alone gives a total variation of about {floor}. Cost is gradients a step and time of a step over
SGLD's.
"""


def write(
    folder: Path, *, size: str, seed: int, targets: Sequence[str] = (), say: Callable[[str], Any] = print
) -> None:
    """Audit all and write `audit.md` and `audit.json`, after each sampler, so that what is done is kept."""
    done: dict[str, Any] = {}
    for name, build in audited().items():
        began = time.perf_counter()
        try:
            result = audit_kernel(build(), targets, size, seed, name=name)
        except ImportError as error:
            say(f"{name}: not audited ({error})")
            continue
        result.seconds = time.perf_counter() - began
        done[name] = result.as_dict()
        say(f"{result.outcome}: {result.verdict} [{result.seconds:.0f} s]")
        _put(folder, done, size)


def add(folder: Path, name: str, result: Audit, size: str) -> None:
    """Put one audit into the table of a folder, in place of an older one of that sampler."""
    if name not in audited():
        raise ValueError(f"audit: the table has the samplers that --list shows, and {name} is none of them.")
    file = folder / "audit.json"
    done = json.loads(file.read_text()) if file.is_file() else {}
    done[name] = result.as_dict()
    _put(folder, {n: done[n] for n in audited() if n in done}, size)


def _put(folder: Path, done: dict[str, Any], size: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "audit.json").write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n")
    (folder / "audit.md").write_text(page(done, size))


def page(done: dict[str, Any], size: str) -> str:
    """The table as Markdown."""
    columns = [t for t in BUILT if any(f"tv_target_{t}" in r["figures"] for r in done.values())]
    floors = [v for r in done.values() for k, v in r["figures"].items() if k.startswith("tv_floor")]
    lines = [HEAD.format(size=size, floor=f"{min(floors):.3f} to {max(floors):.3f}" if floors else "0")]
    lines += ["| sampler | " + " | ".join(columns) + " | gradients | time | |", "|---" * (len(columns) + 4) + "|"]
    for name, row in done.items():
        figures, outcome = row["figures"], row["outcome"]
        cost = [f"{figures[c]:.3g}" if c in figures else "" for c in ("cost_grad", "cost_time")]
        mark = {"as claimed": "not p, as claimed", "failed": "**failed**"}.get(outcome, outcome)
        lines.append(f"| {name} | " + " | ".join([*(_cell(figures, t) for t in columns), *cost, mark]) + " |")
    lines += ["", "| sampler | claims | verdict |", "|---|---|---|"]
    plain = lambda text: text.replace("|z|", "z").replace("|", "∣")
    lines += [f"| `{plain(r['kernel'])}` | {plain(r['law'])} | {plain(r['verdict'])} |" for r in done.values()]
    lines += ["", "Not audited: " + "; ".join(f"`{n}`: {why}" for n, why in excluded().items()) + "."]
    return "\n".join(lines) + "\n"


def _cell(figures: dict[str, float], target: str) -> str:
    if f"diverged_{target}" in figures and f"tv_target_{target}" not in figures:
        return "diverged"
    if f"tv_target_{target}" not in figures:
        return ""
    z = figures.get(f"z_claimed_{target}")
    return f"{figures[f'tv_target_{target}']:.3f} / {'–' if z is None else f'{z:.1f}'}"
