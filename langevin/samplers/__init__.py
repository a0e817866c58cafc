"""One kernel a file; the folder is the registry; files do not import one another.

`__init__.pyi` is generated from the files (`make stubs`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
