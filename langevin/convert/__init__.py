"""Networks of other libraries as nets that `bnn` takes."""

from langevin.convert.equinox import from_equinox
from langevin.convert.flax import from_flax
from langevin.convert.function import from_function
from langevin.convert.torch import from_torch

__all__ = [
    "from_equinox",
    "from_flax",
    "from_function",
    "from_torch",
]
