r"""Deep ensembles: the trained positions themselves, one a chain.

    q(θ) = (1/M) Σ_m δ(θ − θ_m).

References
----------
Lakshminarayanan, Pritzel & Blundell (2017), Simple and scalable predictive uncertainty estimation.
"""

from __future__ import annotations

from typing import Any

from langevin.core.advance import chains_of
from langevin.core.kernel import PerChain, innermost, replace, spread
from langevin.core.record import record
from langevin.core.types import Key, State
from langevin.tune.positions import opened
from langevin.vi.families.delta import Delta
from langevin.vi.independent import Independent


@record
class Ensemble:
    """A tuner of `Independent`: every draw of a chain is the position that it has."""

    def __call__(self, key: Key, kernel: Any, target: Any, states: State) -> tuple[Any, State]:
        if not isinstance(innermost(kernel), Independent):
            raise TypeError(f"vi.Ensemble: the kernel is {type(innermost(kernel)).__name__}; it must be Independent().")
        _, states = opened(key, kernel, target, states, "vi.Ensemble")
        wide = spread(replace(innermost(kernel), family=Delta(), params=()), chains_of(states))
        return PerChain(replace(wide, params=states.position)), states

    def work(self, n: int) -> tuple[int, int]:
        return 1, 1
