"""The base class of evidence methods, and their registry.

A method is a record whose fields are its settings. Called with a key, a target, a base and, where it needs them, draws
of the target, it refuses what it cannot use in one sentence and returns an `Evidence`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeVar, dataclass_transform

from langevin.core.record import nonnegative, positive, record, static
from langevin.core.target import HasDensity, Target, need
from langevin.core.types import Key, PyTree
from langevin.evidence.base import check_base
from langevin.evidence.types import Evidence

M = TypeVar("M")
METHODS: dict[str, type[Method]] = {}


class Method:
    """Abstract: one way to estimate log Z. A subclass is a record and gives `estimate_evidence`.

    name: the short name by which `log_evidence` and `langevin evidence` know it.
    requires: what the target must be able to do.
    minibatches: "used", "refused", or "ignored" by methods that evaluate the density of all data in any case.
    needs_base: whether it starts from draws of the base.
    needs_draws: whether it needs draws of the target.
    """

    name: ClassVar[str] = ""
    requires: ClassVar[Any] = HasDensity
    minibatches: ClassVar[Literal["used", "refused", "ignored"]] = "refused"
    needs_base: ClassVar[bool] = True
    needs_draws: ClassVar[bool] = False

    def __call__(self, key: Key, target: Any, base: Any = None, draws: PyTree | None = None) -> Evidence:
        """log Z of the target, after a check of what was given."""
        need(target, self.requires, self.name)
        if self.needs_base:
            check_base(base)
        for part in (target, base) if self.minibatches == "refused" else ():
            if isinstance(part, Target) and part.stochastic:
                raise ValueError(
                    f"evidence: {self.name} needs exact densities, but {type(part).__name__} estimates them from "
                    "mini-batches; use all data (batch=None), or a method for mini-batches such as midpoint."
                )
        if self.needs_draws and draws is None:
            raise ValueError(f"evidence: {self.name} needs draws of the target; pass draws=…")
        return self.estimate_evidence(key, target, base, draws)

    def estimate_evidence(self, key: Key, target: Any, base: Any, draws: PyTree) -> Evidence:
        raise NotImplementedError


@dataclass_transform(frozen_default=True, field_specifiers=(static, positive, nonnegative, dataclasses.field))
def method(name: str) -> Callable[[type[M]], type[M]]:
    """Make a class a record and register it under a short name."""

    def register(cls: type[M]) -> type[M]:
        made = record(cls)
        made.name = name  # type: ignore[attr-defined]
        METHODS[name] = made  # type: ignore[assignment]
        return made

    return register


def named(name: str) -> Any:
    """The registered method of that name."""
    if name not in METHODS:
        raise ValueError(f"evidence: there is no method {name!r}; there are {', '.join(METHODS)}.")
    return METHODS[name]
