"""Bayesian computation for deep learning, in JAX. Every sampler states its stationary distribution and is audited.

Names are imported when they are first used; `__init__.pyi` lists them for editors and type checkers. What most users
need is here; everything else is in its sub-package, such as `langevin.tune` or `langevin.targets`.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
