"""Ctrl-C and a loop of pieces: the first is noted, so that the present piece is kept; the second raises at once."""

from __future__ import annotations

import signal
import threading
from typing import Any


class Patience:
    """Inside this block Ctrl-C sets `asked`, and a second one raises KeyboardInterrupt.

    A handler that the user has set is left alone, and so is every thread but the first, which alone gets signals.
    """

    def __init__(self) -> None:
        self.asked = False
        self.before: Any = None

    def __enter__(self) -> Patience:
        first = threading.current_thread() is threading.main_thread()
        if first and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self.before = signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, *_: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(self, *_: Any) -> None:
        if self.before is not None:
            signal.signal(signal.SIGINT, self.before)
