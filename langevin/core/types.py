"""The records that flow between targets, kernels and the loop.

One `State` and one `Info` serve every kernel, so annealing, resampling, checkpoints and reports are written once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax

from langevin.core import display

Key = jax.Array
Scalar = jax.Array
PyTree = Any
Batch = Any
Feed = Any


class Eval(NamedTuple):
    """A target at one position, exact or estimated from a mini-batch and scaled to all data."""

    log_density: Scalar
    grad: PyTree  # +∇log p, never −∇U
    n_data: Scalar  # examples evaluated

    def __repr__(self) -> str:
        return display.line(self, self._fields)


class State(NamedTuple):
    """Everything a chain carries.

    `eval` is the latest evaluation, at `position` unless the kernel's docstring says otherwise. `count` is one
    number for all chains and is never mapped, so that a `lax.cond` on it stays a branch.
    """

    position: PyTree  # θ, what the user asked about
    aux: PyTree  # momentum, velocity, thermostat
    memory: PyTree  # running statistics, per-chain tuned numbers
    eval: Eval
    feed: Feed  # where the data stream stands
    count: Scalar  # type: ignore[assignment]  # steps taken

    def __repr__(self) -> str:
        return display.line(self, self._fields)


def map_chains(fn: Callable[[PyTree], PyTree], states: State) -> State:
    """fn of every part of the states but `count`, which all chains share."""
    position, aux, memory, evaluation, feed, count = states
    return State(fn(position), fn(aux), fn(memory), fn(evaluation), fn(feed), count)


class Info(NamedTuple):
    """What one step reports, for every kernel."""

    log_density: Scalar
    log_weight: Scalar  # 0 for an ordinary draw; −inf: not collected (exploration, hot replica)
    acceptance: Scalar  # 1 for unadjusted kernels
    energy_error: Scalar  # H(new) − H(old); 0 where no Hamiltonian is defined
    n_grad: Scalar
    n_data: Scalar
    ok: Scalar  # False: the chain has diverged; it is named and left out

    def __repr__(self) -> str:
        return display.line(self, self._fields)


class Law(NamedTuple):
    """What a kernel converges to: exactly p, p with a bias of order h^order, a named wrong law, or a fitted q."""

    kind: Literal["exact", "order", "wrong", "approximate"]
    order: float
    density: Callable[[Any], Any] | None  # Target → Target, the law a wrong kernel really has
    words: str


class Run(NamedTuple):
    """What the loop returns: chains to continue from, (chain, draw, …) of what was collected, kernel and target.

    Kernel and target are as they ended: callbacks may have changed them. interrupted: by Ctrl-C.
    """

    states: State
    kept: PyTree
    info: Any  # Info, or what reads it from disk
    kernel: Any
    target: Any
    interrupted: bool = False

    def __repr__(self) -> str:
        return display.line(self, self._fields)

    def _repr_html_(self) -> str:
        chains, draws = self.info.ok.shape
        fields = ("kernel", "target", "kept", "states")
        rows = [("chains × draws", f"{chains} × {draws}"), *((f, display.show(getattr(self, f))) for f in fields)]
        return display.page("Run", "", rows)


class Progress(NamedTuple):
    """Where a run stands between two chunks: what a callback is given and gives back, changed or not.

    done: draws collected so far; zero or less in warm-up. kept, info: of the chunk just sampled. stop: end here.
    """

    done: int
    kernel: Any
    target: Any
    states: State
    kept: PyTree
    info: Info
    stop: bool = False

    def __repr__(self) -> str:
        return display.line(self, self._fields)


def position_of(state: State) -> PyTree:
    """Collect the position: the default of the loop."""
    return state.position
