"""A progress bar for work in stages: in a terminal, in a notebook, or as lines in a log.

A bar is a listener (`core.progress`). `stages` says what share of the time each stage is expected to take. The time
left is that of the present stage at its own pace, and for the stages to come what they are expected to take, scaled by
how long those before took against what was expected of them.
"""

from __future__ import annotations

import itertools
import math
import sys
import time
from collections.abc import Callable, Mapping
from html import escape
from typing import Any, Protocol

import numpy as np

from langevin.core.progress import Step

LONG = 10.0  # seconds: of work that takes longer the expected time is said at first
STEADY = 5  # marks of a stage from which on its pace is known
OFTEN = 0.2  # seconds between two pictures in a notebook


class Clock:
    """How long work in stages takes, as far as can be told from its beginning.

    The first piece of a stage compiles. So a stage takes an overhead, which is that of stages before until it is known,
    and a pace times what is expected of it.
    """

    def __init__(self, stages: Mapping[str, float], now: Callable[[], float] = time.perf_counter):
        self.expected, self.now = dict(stages), now
        self.began = now()
        self.stage = ""
        self.marks: dict[str, list[tuple[float, float]]] = {}  # (when, share) of every stage that has begun

    def add(self, step: Step) -> None:
        marks = self.marks.setdefault(step.stage, [])
        self.expected.setdefault(step.stage, 0.0)
        self.stage = step.stage
        if not marks or step.share > marks[-1][1] or step.share >= 1:
            marks.append((self.now(), step.share))

    @property
    def elapsed(self) -> float:
        return self.now() - self.began

    @property
    def seconds(self) -> dict[str, float]:
        """What every stage has taken."""
        return {stage: marks[-1][0] - marks[0][0] for stage, marks in self.marks.items()}

    def left(self) -> dict[str, float] | None:
        """Seconds to the end of each stage that is not over; None before anything is known."""
        unit, overhead = self._pace()
        if unit is None or self.stage not in self.marks:
            return None
        marks = self.marks[self.stage]
        since, (at, share) = self.now() - marks[0][0], marks[-1]
        if len(marks) > 2:
            here = _pace_of(marks) * (1 - share) - (self.now() - at)
        else:
            here = overhead + unit * self.expected[self.stage] - since
        names = list(self.expected)
        later = names[names.index(self.stage) + 1 :]
        here = 0.0 if share >= 1 else max(here, 0.0)
        return {self.stage: here} | {s: overhead + unit * self.expected[s] for s in later}

    def _pace(self) -> tuple[float | None, float]:
        """Seconds for a unit of what is expected, and the overhead of a stage."""
        ran, units, overheads = 0.0, 0.0, [0.0]
        for stage, marks in self.marks.items():
            if len(marks) >= STEADY:
                pace, (last, share) = _pace_of(marks), marks[-1]
                ran += pace * share
                units += self.expected[stage] * share
                overheads.append(last - marks[0][0] - pace * share)
        return ran / units if units > 0 else None, max(overheads)


def _pace_of(marks: list[tuple[float, float]]) -> float:
    """Seconds for the whole of a stage as its pieces went but the first: the median, for one may compile something."""
    pairs = itertools.pairwise(marks[1:])
    return float(np.median([(after - before) / max(more - share, 1e-9) for (before, share), (after, more) in pairs]))


class Display(Protocol):
    """Where a bar is drawn."""

    def draw(self, stage: str, share: float, text: str, left: float | None) -> None: ...
    def say(self, line: str) -> None: ...
    def close(self) -> None: ...


class Bar:
    """Shows how far work in stages has got, and how long it will take.

    stages: {name: expected share of the time}, in order. quiet: show nothing. console: Rich's, to draw on.
    """

    def __init__(self, stages: Mapping[str, float], *, quiet: bool = False, console: Any = None):
        self.clock = Clock(stages)
        self.display: Display = Silent() if quiet else _display(tuple(stages), console)
        self.text, self.promised, self.furthest = "", False, 0.0

    def __call__(self, step: Step) -> None:
        if step.stage != self.clock.stage:
            self.text = ""
        self.text = self.text if step.text is None else step.text
        if math.isnan(step.share):
            return
        self.clock.add(step)
        parts = self.clock.left()
        left = None if parts is None else sum(parts.values())
        if parts is not None and left is not None and not self.promised:
            self.promised = True
            if (whole := self.clock.elapsed + left) > LONG:
                self.display.say(_promise(whole, parts))
        if left is not None:
            # the bar never goes back, though the time left may grow
            elapsed = self.clock.elapsed
            self.furthest = max(self.furthest, elapsed / (elapsed + left) if left else 1.0)
        if step.share >= 1 and step.stage == list(self.clock.expected)[-1]:
            self.furthest = 1.0  # also of work too short for its pace to be known
        self.display.draw(step.stage, self.furthest, self.text, left)

    def close(self) -> None:
        self.display.close()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Pulse:
    """Shows that work of unknown length goes on: for how long, and how far the part is that it is at.

    name: of the work. quiet: show nothing. console: Rich's, to draw on.
    """

    def __init__(self, name: str, *, quiet: bool = False, console: Any = None):
        self.name, self.part, self.share = name, 1, 0.0
        self.display: Display = Silent() if quiet else _display((name,), console)

    def __call__(self, step: Step) -> None:
        if math.isnan(step.share):
            return
        self.part += step.share < self.share
        self.share = step.share
        self.display.draw(self.name, float("nan"), f"part {self.part}: {100 * step.share:.0f} %", None)

    def __enter__(self) -> Pulse:
        return self

    def __exit__(self, *_: Any) -> None:
        self.display.close()


def _promise(whole: float, parts: dict[str, float]) -> str:
    each = ", ".join(f"{name} {_rough(seconds)}" for name, seconds in parts.items() if seconds >= 1)
    return f"This will take about {_rough(whole)} on this machine{f' ({each} still to go)' if len(parts) > 1 else ''}."


def _rough(seconds: float) -> str:
    """A time as one says it before it has passed."""
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def clock_words(seconds: float) -> str:
    """A time as a clock shows it."""
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def _display(stages: tuple[str, ...], console: Any) -> Display:
    if console is None and _in_notebook():
        return Notebook(stages)
    from rich.console import Console

    console = console or Console(file=sys.stderr)
    return Terminal(stages, console) if console.is_terminal else Silent()


def _in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return running is not None and type(running).__name__ == "ZMQInteractiveShell"


class Silent:
    """Nothing is shown: off a terminal a log would fill with bars."""

    def draw(self, stage: str, share: float, text: str, left: float | None) -> None:
        pass

    def say(self, line: str) -> None:
        pass

    def close(self) -> None:
        pass


class Terminal:
    """One line that is drawn anew ten times a second, also while a piece compiles or runs."""

    def __init__(self, stages: tuple[str, ...], console: Any):
        from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

        self.stages = stages
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TaskProgressColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.fields[text]}", style="dim"),
        )
        self.bar = Progress(*columns, console=console)
        self.task = self.bar.add_task("", total=1.0, left="", text="")
        self.bar.start()

    def draw(self, stage: str, share: float, text: str, left: float | None) -> None:
        from rich.markup import escape

        known = self.stages if stage in self.stages else (*self.stages, stage)
        names = [f"[bold]{escape(n)}[/bold]" if n == stage else f"[dim]{escape(n)}[/dim]" for n in known]
        left_words = f"about {clock_words(left)} left" if left else ""
        words = " → ".join(names)
        if math.isnan(share):  # how much there is to do is not known
            self.bar.update(self.task, total=None, description=words, left="", text=escape(text))
            return
        self.bar.update(self.task, completed=share, description=words, left=left_words, text=escape(text))

    def say(self, line: str) -> None:
        self.bar.console.print(line, highlight=False, markup=False)

    def close(self) -> None:
        self.bar.stop()


class Notebook:
    """A bar in the output of a cell, replaced in place."""

    def __init__(self, stages: tuple[str, ...]):
        from IPython.display import display

        self.stages, self.drawn, self.line = stages, 0.0, ""
        self.handle = display(self._html("", 0.0, "", None), display_id=True)

    def draw(self, stage: str, share: float, text: str, left: float | None) -> None:
        now = time.perf_counter()
        if now - self.drawn >= OFTEN or share >= 1:
            self.drawn = now
            self.handle.update(self._html(stage, share, text, left))

    def say(self, line: str) -> None:
        self.line = line

    def close(self) -> None:
        pass

    def _html(self, stage: str, share: float, text: str, left: float | None) -> Any:
        from IPython.display import HTML

        share = 0.0 if math.isnan(share) else share
        names = " → ".join(f"<b>{escape(n)}</b>" if n == stage else escape(n) for n in self.stages)
        rest = [f"about {clock_words(left)} left"] if left else []
        about = " · ".join([*rest, *([escape(text)] if text else [])])
        told = f"<div><small>{escape(self.line)}</small></div>" if self.line else ""
        bar = f'<progress value="{share:.3f}" max="1" style="width:16em;vertical-align:middle"></progress>'
        return HTML(f"{told}<div>{names} {bar} {100 * share:.0f} % <small>{about}</small></div>")
