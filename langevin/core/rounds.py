"""Rounds of tuning: told after each, and with a folder gone on with after the last that was written.

    with keep(folder, mark):
        kernel, states = repeat(one, kernel, states, target, rounds=30)     # inside a tuner

`one(i, kernel, states)` is round i. The folder is set around the tuner and not given to it, so that a tuner is written
and called in the same way with and without one. `mark` is the fingerprint of what the tuner was given: rounds of
anything else are refused. Rounds depend on nothing but their arguments, so those after the last that was written give
the same again; where a kernel holds code that a file cannot hold, all of them are run again.

    folder/round-<n>.json, round-<n>.npz    kernel and states after n rounds
    folder/tuned.json, tuned.npz            what the tuner returned
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import jax

from langevin.core import document, progress, sharding
from langevin.core.files import StoreError
from langevin.core.interrupt import Patience
from langevin.core.kernel import PerChain
from langevin.core.restore import reseat
from langevin.core.serialize import decode, encode
from langevin.core.types import State

SECONDS = 5.0  # between two rounds that are written, at the least
TUNED = "tuned"
Round = Callable[[int, Any, State], tuple[Any, State]]


class Folder:
    """Where rounds are kept."""

    def __init__(self, path: Path, mark: str):
        self.path, self.mark, self.written = path, mark, time.monotonic()

    def save(self, name: str, kernel: Any, states: State) -> None:
        """Write kernel and states, and remove rounds before; nothing where the kernel cannot be written."""
        if jax.process_index() > 0 or encode(kernel).lost:
            return
        self.path.mkdir(parents=True, exist_ok=True)
        document.save(self.path, name, dict(mark=self.mark, kernel=kernel, states=states))
        for old in self.path.glob("round-*"):
            if old.stem != name:
                old.unlink()
        self.written = time.monotonic()

    def load(self, name: str, target: Any, like: State) -> tuple[Any, State] | None:
        """What was saved by this name, where the states `like` are; None where it is not there or cannot be used."""
        if not document.exists(self.path, name):
            return None
        body, arrays = document.read(self.path, name)
        if body.get("mark") != self.mark:
            raise StoreError(
                f"store: {self.path} holds another run (its kernel, target, start or tuning differ, in numbers, data "
                "or code); use another folder, or call with what that run was started with."
            )
        try:
            kernel = decode(body["kernel"], arrays)
        except StoreError:  # a class of the user's that is not imported yet: the rounds are run again
            return None
        states = reseat(decode(body["states"], arrays, lenient=True), kernel, target, like.position)
        kernel = sharding.beside(kernel, like) if isinstance(kernel, PerChain) else kernel
        return kernel, sharding.beside(states, like)

    def last(self) -> int:
        """How many rounds the newest file has behind it."""
        return max((int(f.stem.removeprefix("round-")) for f in self.path.glob("round-*.json")), default=0)


_FOLDER: ContextVar[Folder | None] = ContextVar("langevin_rounds", default=None)


@contextmanager
def keep(path: Path | None, mark: str) -> Iterator[Folder | None]:
    """Write the rounds of a tuner called inside to this folder, or go on after those that are there."""
    folder = None if path is None else Folder(path, mark)
    before = _FOLDER.set(folder)
    try:
        yield folder
    finally:
        _FOLDER.reset(before)


def place(name: str) -> Path | None:
    """A folder inside that of the tuner that runs now, for what it keeps by itself; None where nothing is kept."""
    folder = _FOLDER.get()
    return None if folder is None else folder.path / name


def repeat(one: Round, kernel: Any, states: State, target: Any, *, rounds: int) -> tuple[Any, State]:
    """Kernel and states after so many rounds."""
    folder, first = _FOLDER.get(), 0
    if folder is not None and (last := min(folder.last(), rounds)):
        found = folder.load(f"round-{last}", target, states)
        if found is not None:
            first, (kernel, states) = last, found
            progress.tell(first, rounds)
    with Patience() as patience:
        for i in range(first, rounds):
            kernel, states = one(i, kernel, states)
            if progress.heard():
                jax.block_until_ready(states)  # told when it is done, not when it was begun
            progress.tell(i + 1, rounds)
            late = time.monotonic() - (folder.written if folder is not None else 0.0) > SECONDS
            if folder is not None and (late or patience.asked):
                folder.save(f"round-{i + 1}", kernel, states)
            if patience.asked:
                raise KeyboardInterrupt("tuning was interrupted.")
    return kernel, states
