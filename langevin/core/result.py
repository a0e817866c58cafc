"""The one shape every command that prints figures writes, and how it times."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from langevin.core.provenance import Provenance


@dataclasses.dataclass
class Result:
    """name, flat figures, a table of rows, and where they came from (docs/architecture.md, §9)."""

    name: str
    figures: dict[str, float]
    table: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    bars: dict[str, str] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)
    drawing: Callable[[str], None] | None = None
    seconds: float = 0.0
    seed: int = 0

    def as_dict(self) -> dict[str, Any]:
        where = dataclasses.asdict(Provenance.now(seed=(self.seed,), seconds=round(self.seconds, 1)))
        where["seed"] = self.seed
        kept = {k: where[k] for k in ("seed", "versions", "device", "seconds", "git")}
        figures = {k: _short(v) for k, v in self.figures.items()}
        table = [{k: _short(v) for k, v in row.items()} for row in self.table]
        return {"name": self.name, "figures": figures, "bars": self.bars, "table": table, "provenance": kept}

    def write(self, path: str | Path) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(self.as_dict(), indent=1, ensure_ascii=False) + "\n")


def interleaved(runs: dict[str, Callable[[int], Any]], repeats: int = 7) -> dict[str, list[float]]:
    """Seconds of every run, taken in turns so that a slow moment hits all alike; the first call is not timed."""
    for run in runs.values():
        jax.block_until_ready(run(0))
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeats):
        for name, run in runs.items():
            began = time.perf_counter()
            jax.block_until_ready(run(turn + 1))
            seconds[name].append(time.perf_counter() - began)
    return seconds


def ratio(seconds: dict[str, list[float]], a: str, b: str) -> float:
    """The median over turns of time a ÷ time b of the same turn."""
    return float(np.median(np.asarray(seconds[a]) / np.asarray(seconds[b])))


def _short(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, (float, np.floating)) else value
