"""How numbers, counts and shares are written in a report and on the terminal."""

from __future__ import annotations

import math
from typing import Any

MINUS, SPACE = "\u2212", "\u00a0"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
UNKNOWN = "–"


def short(text: Any, letters: int) -> str:
    """Text of at most so many letters: what does not fit on an axis is cut."""
    text = str(text)
    return text if len(text) <= letters else text[: letters - 1] + "…"


def number(x: float, digits: int = 3) -> str:
    """A number of so many significant digits, with a real minus and thousands separators."""
    x = float(x)
    if not math.isfinite(x):
        return UNKNOWN if math.isnan(x) else ("∞" if x > 0 else MINUS + "∞")
    if x == 0:
        return "0"
    magnitude = int(f"{abs(x):.{digits - 1}e}".split("e")[1])  # after rounding: 0.9996 is 1.00
    if -4 <= magnitude < 6:
        return f"{x:,.{max(0, digits - 1 - magnitude)}f}".replace("-", MINUS)
    return f"{x / 10.0**magnitude:.{digits - 1}f}×10{str(magnitude).translate(RAISED)}".replace("-", MINUS)


def rhat_words(x: float) -> str:
    """R̂ with three decimals, which is where it matters."""
    return f"{x:.3f}" if x < 10 else number(x)


def count(n: int) -> str:
    return f"{n:,}"


def several(n: int, thing: str) -> str:
    """A count and its noun: "1 chain", "1,000 draws"."""
    return f"{count(n)} {thing}{'' if n == 1 else 's'}"


def percent(share: float, decimals: int = 1) -> str:
    return UNKNOWN if math.isnan(share) else f"{100 * share:.{decimals}f}{SPACE}%".replace("-", MINUS)


def percents(low: float, high: float) -> str:
    return UNKNOWN if math.isnan(low + high) else f"{100 * low:.0f} to {100 * high:.0f}{SPACE}%"
