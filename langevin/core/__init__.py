"""The loop, its records and protocols. No method is named here."""

from langevin.core.files import StoreError
from langevin.core.kernel import PerChain
from langevin.core.shards import Stored
from langevin.core.store import Store

__all__ = [
    "PerChain",
    "Store",
    "StoreError",
    "Stored",
]
