"""Published forms kept for comparison: samplers whose stationary distribution is not p, or that are superseded.

They follow the protocol of `langevin.samplers`, say what they converge to and are audited for it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
