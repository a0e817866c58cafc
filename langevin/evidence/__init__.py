"""Evidence: log Z of a model, its error, its bounds and what they are worth, in one call.

`langevin.evidence(key, target, base)` is `langevin.evidence.entry.evidence`; every method is a file here.
"""

import sys
from types import ModuleType


class _Package(ModuleType):
    """The package can be called: the verb and the folder have one name."""

    def __call__(self, *args, **how):
        from langevin.evidence.entry import evidence

        return evidence(*args, **how)


sys.modules[__name__].__class__ = _Package
