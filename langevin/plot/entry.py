"""Charts by name: what `posterior.plot(kind)` calls."""

from __future__ import annotations

from typing import Any

from langevin.plot import calibration, energy, forest, predictive_band, rank, trace

KINDS = {fn.__name__: fn for fn in (trace, rank, forest, energy, predictive_band, calibration)}


def draw(source: Any, kind: str = "trace", *args: Any, **options: Any) -> Any:
    """The chart of that kind."""
    if kind not in KINDS:
        raise ValueError(f"plot: there is no kind {kind!r}; there are {', '.join(KINDS)}.")
    return KINDS[kind](source, *args, **options)
