"""Functions of layers above, which core offers to users as methods and options: imported by name when first called.

A module imports only from layers below its own. Here are the few calls that go up, as `core.kernel.registered` does to
find samplers: `posterior.summary()` needs pandas and the diagnostics, `posterior.plot()` Matplotlib, and
`sample(tune="auto")` the tuners.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

ABOVE = {
    "summary": "langevin.report.summary:summarize",
    "plot": "langevin.plot.entry:draw",
    "tune": "langevin.tune.auto:auto",
}


def above(name: str) -> Callable[..., Any]:
    """The function that core calls by this name."""
    module, _, function = ABOVE[name].partition(":")
    return getattr(importlib.import_module(module), function)
