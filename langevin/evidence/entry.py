r"""One call for every method: log Z of a target, from a base.

    Adapted, SMC, AIS, HAIS, DAIS, LDVI, Importance     on all data; unbiased for Z, or consistent
    Midpoint, Stages, StochasticDAIS, TwoBatch          on mini-batches
    ZigZag                                              on single examples of a factored target: a lower bound
    Thermodynamic, SteppingStone                        from chains at fixed temperatures
    BDMC, Reverse, Bridge, Harmonic                     with draws of the posterior
    Laplace, SUMO, Nested                               the rest

"auto" is `Adapted` on all data and `Midpoint` on mini-batches.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from langevin.core.types import Key, PyTree
from langevin.evidence.annealing import AIS
from langevin.evidence.method import Method, named
from langevin.evidence.minibatch import Midpoint
from langevin.evidence.sampling import Adapted
from langevin.evidence.types import Evidence


def log_evidence(
    key: Key, target: Any, base: Any, method: str | Method = "auto", *, draws: PyTree | None = None, **settings: Any
) -> Evidence:
    """log Z = log ∫ e^{log_density} of a target, with its error, bounds, cost and guarantee.

    base: a normalised distribution that can be drawn from, such as Normal(mean, scale) or the prior.
    method: a record such as AIS(ladder=1000), its short name such as "ais", or "auto".
    draws: of the target, where a method needs them; exact ones for BDMC and Reverse.
    settings: of a method that is given by name.
    """
    return _method(method, target, settings)(key, target, base, draws)


def _method(method: Any, target: Any, settings: dict[str, Any]) -> Method:
    if isinstance(method, str):
        if method == "auto":
            cls: Any = Midpoint if target.stochastic else Adapted
        else:
            cls = named(method)
        names = [f.name for f in dataclasses.fields(cls)]
        unknown = [name for name in settings if name not in names]
        if unknown:
            raise TypeError(f"evidence: {cls.name} has no setting {unknown[0]!r}; it has {', '.join(names) or 'none'}.")
        return cls(**settings)
    if not isinstance(method, Method):
        given = f"the class {method.__name__}" if isinstance(method, type) else repr(method)[:60]
        raise TypeError(f"evidence: the method is {given}; it must be a name or a record such as {AIS.__name__}().")
    if settings:
        raise TypeError(
            f"evidence: settings of a record are its fields; write {type(method).__name__}({next(iter(settings))}=…)."
        )
    return method
