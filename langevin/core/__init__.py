"""The loop, its records and protocols. No method is named here."""

from langevin.core.kernel import PerChain
from langevin.core.store import Store, Stored, StoreError

__all__ = [
    "PerChain",
    "Store",
    "StoreError",
    "Stored",
]
