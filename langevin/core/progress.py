"""Where long work stands: code that works tells it, and whoever listens shows it.

    with listen(bar):              # a terminal, a notebook, a web page: anything that takes a Step
        with stage("train"):
            tell(3, 40)            # said between two compiled pieces; costs nothing while nobody listens
        with stage("sample"), part(0, 2):
            tell(1, 5)             # the first of two parts: a tenth of the stage

`run` tells after every chunk, `core.rounds` after every round, so most code need not tell anything itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class Step(NamedTuple):
    """Where work stands.

    stage: what is being done, a verb
    share: how much of the stage is done, from 0 to 1; NaN where only the text is new
    text: figures to show beside it; None leaves those before
    """

    stage: str
    share: float
    text: str | None = None


Listener = Callable[[Step], None]


class _Scope(NamedTuple):
    listeners: tuple[Listener, ...] = ()
    stage: str = "work"
    begin: float = 0.0
    end: float = 1.0


_SCOPE: ContextVar[_Scope] = ContextVar("langevin_progress", default=_Scope())  # noqa: B039  # it is immutable


@contextmanager
def _within(scope: _Scope) -> Iterator[None]:
    before = _SCOPE.set(scope)
    try:
        yield
    finally:
        _SCOPE.reset(before)


@contextmanager
def listen(*listeners: Listener) -> Iterator[None]:
    """Send what is told inside to these as well."""
    now = _SCOPE.get()
    with _within(now._replace(listeners=(*now.listeners, *listeners))):
        yield


@contextmanager
def stage(name: str) -> Iterator[None]:
    """What is told inside is of this stage; it is done when the block ends without an error."""
    with _within(_SCOPE.get()._replace(stage=name, begin=0.0, end=1.0)):
        tell(0, 1)
        yield
        tell(1, 1)


@contextmanager
def part(i: float, n: float) -> Iterator[None]:
    """What is told inside is of the part from i/n to (i + 1)/n of the stage, or of the part around it."""
    now = _SCOPE.get()
    width = (now.end - now.begin) / n
    with _within(now._replace(begin=now.begin + i * width, end=now.begin + (i + 1) * width)):
        yield


def tell(done: float, total: float, text: str | None = None) -> None:
    """Say that `done` of `total` is done."""
    now = _SCOPE.get()
    if now.listeners:
        share = min(max(done / total, 0.0), 1.0) if total > 0 else 1.0
        step = Step(now.stage, now.begin + (now.end - now.begin) * share, text)
        for listener in now.listeners:
            listener(step)


def note(text: str) -> None:
    """Figures to show beside the share that is told next."""
    now = _SCOPE.get()
    for listener in now.listeners:
        listener(Step(now.stage, float("nan"), text))


def heard() -> bool:
    """Whether anybody listens: figures that cost time need not be found otherwise."""
    return bool(_SCOPE.get().listeners)
