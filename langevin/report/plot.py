"""Small charts as inline SVG: axes with round ticks, lines, bands, points, bars, rules, labels and a legend.

Marks carry CSS classes and no colours, so that a page styles them for light, dark and print. A chart has a `viewBox`
of 480 units and scales with its column. On a phone the style sheet sets its text larger (`LETTER`), and margins leave
room for that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from markupsafe import Markup, escape

from langevin.report.markup import figure
from langevin.report.numbers import MINUS, RAISED, SPACE

WIDTH, HEIGHT = 480, 300
LETTER = 10.5  # the widest digit at the largest text size that style.css sets, in units of the viewBox
TOP, BOTTOM, RIGHT = 34, 56, 16


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`; `places` and `names` of ticks are chosen where none are given."""

    label: str
    low: float
    high: float
    places: Sequence[float] = ()
    names: Sequence[str] = ()

    @classmethod
    def over(cls, label: str, *values, zero: bool = False, pad: float = 0.04) -> Axis:
        """Wide enough for all finite values, with a little room; from 0 where `zero`."""
        flat = np.concatenate([np.ravel(np.asarray(v, float)) for v in values] or [np.zeros(0)])
        flat = flat[np.isfinite(flat)]
        low, high = (float(flat.min()), float(flat.max())) if flat.size else (0.0, 1.0)
        low, high = (min(low, 0.0), max(high, 0.0)) if zero else (low, high)
        if high - low <= 1e-12 * max(abs(low), abs(high)):  # one value only
            low, high = (low - abs(low) / 20, high + abs(high) / 20) if high else (0.0, 1.0)
        room = pad * (high - low)
        return cls(label, low if zero and low == 0 else low - room, high if zero and high == 0 else high + room)

    @classmethod
    def share(cls, label: str, low: float = 0.0, high: float = 1.0) -> Axis:
        """Shares as per cent."""
        places = ticks(low, high)
        decimals = _decimals([100 * p for p in places])
        return cls(label, low, high, places, [_written(100 * p, decimals) + f"{SPACE}%" for p in places])

    @classmethod
    def whole(cls, label: str, low: float, high: float) -> Axis:
        """Counts: ticks at whole numbers only."""
        places = [p for p in ticks(low, high) if abs(p - round(p)) < 1e-9]
        return cls(label, low, high, places, [_written(p, 0) for p in places])

    def ticked(self) -> tuple[Sequence[float], Sequence[str], str]:
        """Places and names of the ticks, and the label with the power of ten that the names leave out."""
        if len(self.places):
            return self.places, self.names, self.label
        places = ticks(self.low, self.high)
        names, power = tick_names(places)
        return places, names, f"{self.label} (×10{str(power).translate(RAISED)})" if power else self.label


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers from low to high, about so many."""
    if not (math.isfinite(low) and math.isfinite(high) and high > low):
        return [low]
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = power * next(s for s in (1, 2, 2.5, 5, 10) if s * power >= 0.999 * raw)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def tick_names(places: Sequence[float]) -> tuple[list[str], int]:
    """Numbers with as many decimals as their step needs, and the power of ten that was taken out."""
    most = max((abs(p) for p in places), default=0.0)
    magnitude = math.floor(math.log10(most)) if most > 0 else 0
    power = 3 * (magnitude // 3) if magnitude >= 5 or magnitude <= -4 else 0
    scaled = [p / 10.0**power for p in places]
    decimals = _decimals(scaled)
    return [_written(s, decimals) for s in scaled], power


def _decimals(places: Sequence[float]) -> int:
    """As many as the step between ticks needs."""
    step = places[1] - places[0] if len(places) > 1 else 1.0
    return next((d for d in range(12) if abs(round(step, d) - step) < 1e-6 * step), 12)


def _written(x: float, decimals: int) -> str:
    return f"{round(x, decimals) + 0.0:,.{decimals}f}".replace("-", MINUS)


def spread(n: int, most: int) -> np.ndarray:
    """At most so many of n places, evenly spaced: long things are thinned before they are drawn."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).round().astype(int)


def drawn(some: Sequence, of: Sequence) -> str:
    """A sentence that says how many rows are drawn; nothing where all are."""
    return "" if len(some) == len(of) else f" {len(some):,} of {len(of):,} rows are drawn, evenly spaced."


def bins(*values, about: int = 24) -> np.ndarray:
    """Edges of bins of a round width that hold all finite values."""
    axis = Axis.over("", *values, pad=0.0)
    places = ticks(axis.low, axis.high, about)
    step = places[1] - places[0] if len(places) > 1 else axis.high - axis.low
    first, last = math.floor(axis.low / step + 1e-9), math.ceil(axis.high / step - 1e-9)
    edges = np.arange(first, max(last, first + 1) + 1) * step
    edges[0], edges[-1] = min(edges[0], axis.low), max(edges[-1], axis.high)  # rounding must not drop a value
    return edges


@dataclass
class Chart:
    """Marks are drawn in the order they are asked for; a mark with a `name` gets a row in the legend.

    kind: the CSS class that colours a mark: "a", "b", "soft", or "c0" … "c7" for chains
    """

    title: str
    x: Axis
    y: Axis
    about: str = ""  # one sentence for those who do not see the chart
    height: int = HEIGHT
    marks: list[str] = field(default_factory=list)
    legend: list[tuple[str, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.left = max(40.0, 14 + LETTER * max((len(name) for name in self.y.ticked()[1]), default=1))
        self.right = WIDTH - max(RIGHT, LETTER * len((self.x.ticked()[1] or [""])[-1]) / 2)
        self.bottom = float(self.height - BOTTOM)

    def line(self, x, y, kind: str = "a", name: str = "") -> Chart:
        """Through the points in order; broken where a value is not finite."""
        return self._mark("line", kind, name, f'<path class="line {kind}" d="{self._path(x, y)}"/>')

    def band(self, x, low, high, kind: str = "a", name: str = "") -> Chart:
        """Between two lines."""
        x, low, high = (np.asarray(v, float) for v in (x, low, high))
        path = self._path(np.concatenate([x, x[::-1]]), np.concatenate([high, low[::-1]]))
        return self._mark("band", kind, name, f'<path class="band {kind}" d="{path}Z"/>')

    def points(self, x, y, kind: str = "a", name: str = "", *, size=3.2, cross: bool = False) -> Chart:
        """Dots, or crosses: a second kind of point should differ in more than its colour."""
        x, y, size = np.broadcast_arrays(*(np.asarray(v, float) for v in (x, y, size)))
        seen = np.isfinite(x) & np.isfinite(y)
        places = zip(self._across(x[seen]), self._up(y[seen]), size[seen], strict=True)
        if cross:
            arms = "".join(
                f"M{u - r:.1f} {v - r:.1f}l{2 * r:.1f} {2 * r:.1f}m0 {-2 * r:.1f}l{-2 * r:.1f} {2 * r:.1f}"
                for u, v, r in places
            )
            return self._mark("cross", kind, name, f'<path class="cross {kind}" d="{arms}"/>')
        dots = "".join(f'<circle cx="{u:.1f}" cy="{v:.1f}" r="{r:.1f}"/>' for u, v, r in places)
        return self._mark("dot", kind, name, f'<g class="dot {kind}">{dots}</g>')

    def bars(self, left, right, top, kind: str = "a", name: str = "", *, base=0.0) -> Chart:
        """Upright rectangles from `base` to `top`."""
        left, right, top, base = np.broadcast_arrays(*(np.asarray(v, float) for v in (left, right, top, base)))
        sides = zip(self._across(left), self._across(right), self._up(top), self._up(base), strict=True)
        path = "".join(
            f"M{u:.1f} {b:.1f}V{t:.1f}H{v:.1f}V{b:.1f}Z" for u, v, t, b in sides if math.isfinite(u + v + t + b)
        )
        return self._mark("bar", kind, name, f'<path class="bar {kind}" d="{path}"/>')

    def whiskers(self, at, low, high, kind: str = "soft", name: str = "", *, across: bool = False) -> Chart:
        """A thick short line from low to high at each place; `across` lays them flat."""
        ends = (low, at, high, at) if across else (at, low, at, high)
        u, v, s, t = (np.ravel(np.asarray(e, float)) for e in ends)
        sides = zip(self._across(u), self._up(v), self._across(s), self._up(t), strict=True)
        path = "".join(f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}" for a, b, c, d in sides if math.isfinite(a + b + c + d))
        return self._mark("whisker", kind, name, f'<path class="whisker {kind}" d="{path}"/>')

    def rule(self, *, x: float | None = None, y: float | None = None, name: str = "", kind: str = "ink") -> Chart:
        """A broken line right across, at one x or at one y."""
        value = x if x is not None else y
        if value is None or not math.isfinite(value):
            return self
        if x is not None:
            u = float(self._across(np.array([x]))[0])
            path = f"M{u:.1f} {TOP}V{self.bottom:.1f}"
        else:
            v = float(self._up(np.array([y]))[0])
            path = f"M{self.left:.1f} {v:.1f}H{self.right:.1f}"
        return self._mark("rule", kind, name, f'<path class="rule {kind}" d="{path}"/>')

    def diagonal(self, name: str = "") -> Chart:
        """Where y equals x."""
        low, high = max(self.x.low, self.y.low), min(self.x.high, self.y.high)
        path = self._path([low, high], [low, high])
        return self._mark("rule", "ink", name, f'<path class="rule ink" d="{path}"/>')

    def label(self, x: float, y: float, text: str, anchor: str = "start") -> Chart:
        """Words beside what they name."""
        u, v = float(self._across(np.array([x]))[0]), float(self._up(np.array([y]))[0])
        self.marks.append(f'<text class="note" x="{u:.1f}" y="{v:.1f}" text-anchor="{anchor}">{escape(text)}</text>')
        return self

    def html(self) -> Markup:
        """The chart with its title and legend, as a figure."""
        told = f"{self.title}. {self.about}" if self.about else self.title
        legend = [(_swatch(shape, kind), name) for shape, kind, name in self.legend]
        drawn = Markup(f"{self._grid()}{''.join(self.marks)}{self._axes()}")  # numbers, and text that is escaped
        return figure(self.title, told, legend, (WIDTH, self.height), drawn)

    def _mark(self, shape: str, kind: str, name: str, drawn: str) -> Chart:
        self.marks.append(drawn)
        if name:
            self.legend.append((shape, kind, name))
        return self

    def _across(self, x) -> np.ndarray:
        return self.left + (self.right - self.left) * _fraction(self.x, x)

    def _up(self, y) -> np.ndarray:
        return self.bottom - (self.bottom - TOP) * _fraction(self.y, y)

    def _path(self, x, y) -> str:
        pieces, pen = [], "M"
        for u, v in zip(self._across(x), self._up(y), strict=True):
            if not math.isfinite(u + v):
                pen = "M"
                continue
            pieces.append(f"{pen}{u:.1f} {v:.1f}")
            pen = "L"
        return "".join(pieces)

    def _grid(self) -> str:
        lines = "".join(f"M{self.left:.1f} {v:.1f}H{self.right:.1f}" for v in self._up(self.y.ticked()[0]))
        return f'<path class="grid" d="{lines}"/>'

    def _axes(self) -> str:
        (xs, x_names, x_label), (ys, y_names, y_label) = self.x.ticked(), self.y.ticked()
        keep = _apart(x_names, self._across(xs))
        upright = "".join(
            f'<text class="tick" x="{u:.1f}" y="{self.bottom + 22:.1f}" text-anchor="middle">{escape(name)}</text>'
            for i, (u, name) in enumerate(zip(self._across(xs), x_names, strict=True))
            if i % keep == 0
        )
        side = "".join(
            f'<text class="tick" x="{self.left - 8:.1f}" y="{v + 5:.1f}" text-anchor="end">{escape(name)}</text>'
            for v, name in zip(self._up(ys), y_names, strict=True)
        )
        reach = min(0.41 * LETTER * len(x_label), WIDTH / 2)  # half of its length; letters are narrower than digits
        middle = min((self.left + self.right) / 2, WIDTH - reach)
        return (
            f'<path class="axis" d="M{self.left:.1f} {self.bottom:.1f}H{self.right:.1f}"/>{upright}{side}'
            f'<text class="title" x="{middle:.1f}" y="{self.height - 7}" text-anchor="middle">{escape(x_label)}</text>'
            f'<text class="title" x="2" y="17">{escape(y_label)}</text>'
        )


def _fraction(axis: Axis, values) -> np.ndarray:
    """Place along the axis from 0 to 1; what lies beyond is drawn at the edge, NaN stays NaN."""
    return np.clip((np.asarray(values, float) - axis.low) / (axis.high - axis.low), 0.0, 1.0)


def _apart(names: Sequence[str], places: np.ndarray) -> int:
    """Name every so-manieth tick, so that names do not touch."""
    if len(places) < 2:
        return 1
    need = LETTER * max(len(name) for name in names) + 8
    return max(1, math.ceil(need / abs(float(places[1] - places[0]))))


def _swatch(shape: str, kind: str) -> Markup:
    """What a mark looks like, for the legend."""
    drawn = {
        "line": f'<path class="line {kind}" d="M1 7H21"/>',
        "rule": f'<path class="rule {kind}" d="M1 7H21"/>',
        "whisker": f'<path class="whisker {kind}" d="M3 7H19"/>',
        "dot": f'<g class="dot {kind}"><circle cx="11" cy="7" r="4"/></g>',
        "cross": f'<path class="cross {kind}" d="M7 3l8 8m0 -8l-8 8"/>',
        "band": f'<path class="band {kind}" d="M1 1H21V13H1Z"/>',
        "bar": f'<path class="bar {kind}" d="M3 1H19V13H3Z"/>',
    }[shape]
    return Markup(f'<svg class="swatch" viewBox="0 0 22 14" aria-hidden="true">{drawn}</svg>')
