"""What metrics of a moving average of gradients share."""

from __future__ import annotations

from typing import Any

from langevin.core import tree
from langevin.core.record import replace


class Averaging:
    """Abstract: a record with a field `decay`, zero for the present gradient alone."""

    decay: Any

    @property
    def kind(self):
        return "moving" if self.decay else "gradient"

    def instant(self):
        """The same without memory."""
        return replace(self, decay=0.0)

    def start(self, position):
        return tree.zeros_like(position) if self.decay else ()
