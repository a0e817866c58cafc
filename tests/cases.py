"""A table that is written cell by cell, so that its truth is known without reading it, and a register of mutations."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np

OUT = "left out"


@dataclass
class Case:
    """A table as text, and what is true of it.

    cells: text of every column, in order; the last is the target
    kinds: "number", "boolean", "date", "text" or OUT
    values: what the cells mean; None is missing
    refused: words one of which must be in the error; empty where the table must be read
    """

    cells: dict[str, list[str]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    values: dict[str, list] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    separator: str = ","
    encoding: str = "utf-8"
    line: str = "\n"
    quoted: bool = False
    blank_lines: bool = False
    done: set[str] = field(default_factory=set)
    edits: list = field(default_factory=list)  # of lists of cells, the header first

    def add(self, name, kind, cells, values=None, at=None):
        """A column before the target, or at a place."""
        cells, place = list(cells), len(self.cells) - 1 if at is None else at
        for of, new in ((self.cells, cells), (self.kinds, kind), (self.values, list(values or cells))):
            items = list(of.items())
            items.insert(place, (name, new))
            of.clear()
            of.update(items)

    def change(self, name, row, cell, value=None):
        self.cells[name][row], self.values[name][row] = cell, value

    def of(self, kind):
        return [name for name in list(self.cells)[:-1] if self.kinds[name] == kind]

    @property
    def target(self):
        return list(self.cells)[-1]

    @property
    def rows(self):
        return len(self.cells[self.target])

    def written(self) -> bytes:
        lines = [list(self.cells), *map(list, zip(*self.cells.values(), strict=True))]
        for edit in self.edits:
            lines = edit(lines)
        out = io.StringIO()
        how = csv.QUOTE_ALL if self.quoted else csv.QUOTE_MINIMAL
        writer = csv.writer(out, delimiter=self.separator, lineterminator=self.line, quoting=how)
        for i, cells in enumerate(lines):
            writer.writerow(cells)
            if self.blank_lines and i % 5 == 2:
                out.write(self.line)
        return out.getvalue().encode(self.encoding)


def base(random) -> Case:
    """Numbers, whole numbers, categories, dates and flags, some of each, before a target of numbers."""
    n, case = int(random.integers(30, 60)), Case()
    target = np.round(random.normal(5, 3, n), 3) + 0.0005
    case.cells, case.kinds, case.values = {"y": []}, {"y": "number"}, {"y": []}
    numbers = [round(float(v), 2) for v in random.normal(20, 10, n)]
    case.add("size", "number", [f"{v:.2f}" for v in numbers], numbers)
    whole = random.integers(-50, 900, n)
    case.add("steps", "number", map(str, whole), map(float, whole))
    kinds = random.choice(["red", "green", "dark blue"], n).tolist()
    case.add("color", "text", kinds)
    days = [datetime(2019, 1, 1) + timedelta(days=int(d)) for d in random.integers(0, 900, n)]
    case.add("day", "date", [f"{d:%Y-%m-%d}" for d in days], days)
    flags = random.random(n) < 0.5
    case.add("ok", "boolean", ["true" if f else "false" for f in flags], [float(f) for f in flags])
    for name in random.permutation(["steps", "color", "day", "ok"])[: random.integers(0, 4)]:
        for of in (case.cells, case.kinds, case.values):
            del of[name]
    case.cells["y"], case.values["y"] = [f"{v:.4f}" for v in target], [round(v, 4) for v in target]
    return case


def some(random, case, share=0.2):
    """Rows, at least one."""
    return np.flatnonzero(random.random(case.rows) < share).tolist() or [0]


MUTATIONS = {}


def mutation(*groups):
    """Register a mutation; two of one group do not go together."""

    def add(fn):
        MUTATIONS[fn.__name__] = (fn, {fn.__name__, *groups})
        return fn

    return add
