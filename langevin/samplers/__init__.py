"""One kernel a file; the folder is the registry; files do not import one another."""

from langevin.core.kernel import KERNELS, named

__all__ = ["KERNELS", "named"]
