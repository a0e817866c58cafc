"""What comparisons with peers share: who is installed, how busy the machine is, and calls timed twice."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

DISTRIBUTIONS = dict(laplace="laplace-torch", bde="sklearn-contrib-bde", torch_uncertainty="torch-uncertainty")


def missing(package: str) -> str:
    """Why a package cannot be imported, in a few words; empty where it can."""
    try:
        importlib.import_module(package)
    except ImportError as error:
        needs = getattr(error, "name", None)
        return "not installed" if needs == package or needs is None else f"not installed: it needs {needs}"
    return ""


def label(package: str) -> str:
    """Name and version."""
    name = DISTRIBUTIONS.get(package, package)
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return name


def busy_cores(seconds: float = 1.0) -> float:
    """Cores that others keep busy, over a second in which this process sleeps; where that is not told, the load."""
    try:
        idle, every = _ticks()
        time.sleep(seconds)
        idle_now, every_now = _ticks()
    except OSError:
        return os.getloadavg()[0]
    return (os.cpu_count() or 1) * (1 - (idle_now - idle) / max(every_now - every, 1))


def _ticks() -> tuple[int, int]:
    """Idle ticks of all cores, and all ticks, since the machine was started."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


def twice(call: Callable[[int], Any]) -> tuple[Any, float, float]:
    """What the second call gives, its seconds, and how many more the first one took: that is mostly compilation."""
    began = time.perf_counter()
    call(0)
    first = time.perf_counter() - began
    began = time.perf_counter()
    out = call(1)
    second = time.perf_counter() - began
    return out, second, max(first - second, 0.0)
