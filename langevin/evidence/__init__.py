"""Evidence: log Z of a model, its error, its bounds and what they are worth, in one call.

`langevin.log_evidence(key, target, base)` chooses a method; every method is a file here.
"""

from langevin.evidence.base import Normal
from langevin.evidence.entry import log_evidence
from langevin.evidence.types import Evidence

__all__ = ["Evidence", "Normal", "log_evidence"]
