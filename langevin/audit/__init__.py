"""The audit: does a sampler converge to the stationary distribution it states, and at what price?"""

from langevin.audit.entry import Audit, audit_kernel

__all__ = [
    "Audit",
    "audit_kernel",
]
