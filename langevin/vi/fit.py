r"""Fitting a family to a target: a tuner of `Independent`, and the call that does all of it.

`Fit` is a tuner, (key, kernel, target, states) → (kernel, states): from the family in `Independent(family)` around the
positions of the states it maximises an objective over φ by Adam, its rate falling by a cosine, and gives back
`PerChain(Independent(family, φ))`, several fits side by side. So a plan can be made of it, and callbacks, stores,
progress, mini-batches and devices are those of `run`. `fit` is start, tuner and draws in one call.

References
----------
Chen, Li, Zhang & Li, Bayesian Computation in Deep Learning, algorithm 2.
Kingma & Ba (2015), Adam: a method for stochastic optimization.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import jax
import numpy as np
import optax

from langevin.core import rounds
from langevin.core.advance import chains_of
from langevin.core.begin import begin_all
from langevin.core.kernel import PerChain, innermost, spread
from langevin.core.posterior import Posterior, sample
from langevin.core.record import positive, record, replace, static
from langevin.core.run import run
from langevin.core.target import HasBatches, need
from langevin.core.types import Key, PyTree, State
from langevin.samplers.optimize import Adam, Optimize
from langevin.tune.positions import opened
from langevin.tune.warm_start import nothing
from langevin.vi.family import Family, check_family
from langevin.vi.independent import Independent
from langevin.vi.objectives.elbo import ELBO
from langevin.vi.variational import Variational

DEFAULT = ELBO()


@record
class Fit:
    """How φ is found.

    objective: what is maximised.
    steps: of Adam.
    rate: Adam's learning rate at first; it ends at a thousandth of it.
    batch: examples in a step, where the target has mini-batches; None for its own.
    """

    objective: Any = DEFAULT
    steps: int = static(default=5_000)
    rate: float = positive(default=1e-2)
    batch: int | None = static(default=None)

    def __call__(self, key: Key, kernel: Any, target: Any, states: State) -> tuple[Any, State]:
        if not isinstance(innermost(kernel), Independent):
            raise TypeError(
                f"vi.Fit: the kernel is {type(innermost(kernel)).__name__}; it must be Independent(family)."
            )
        key, states = opened(key, kernel, target, states, "vi.Fit")
        params, at = self.found(key, innermost(kernel).family, target, states.position)
        wide = spread(replace(innermost(kernel), params=()), chains_of(states))
        return PerChain(replace(wide, params=params)), states._replace(position=at)

    def work(self, n: int) -> tuple[int, int]:
        return self.steps, min(self.batch or n, n)

    def found(self, key: Key, family: Family, target: Any, positions: PyTree) -> tuple[PyTree, PyTree]:
        """φ of every chain, and a draw of each."""
        need(target, HasBatches, "vi.Fit")
        k_init, k_run, k_draw = jax.random.split(key, 3)
        start = begin_params(k_init, family, positions)
        aim = Variational(of_small_batches(target, self.batch), family, self.objective)
        found = climbed(k_run, Optimize(adam(float(self.rate), self.steps)), aim, start, self.steps, "vi.Fit")
        return found.position, draw_each(k_draw, family, found.position)


def of_small_batches(target: Any, batch: int | None) -> Any:
    """The target with mini-batches of this size, or its own."""
    return target if batch is None else replace(target, batch=min(batch, target.n), order="epoch")


def climbed(key: Key, kernel: Any, target: Any, start: Any, steps: int, who: str) -> State:
    """The states after so many steps; fits that became NaN are named, and refused where none is left."""
    how: dict[str, Any] = dict(chunk=max(steps // 50, 1), collect=nothing, store=rounds.place("fit"))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "run: chain")  # said below, of fits
        out = run(key, kernel, target, start, draws=steps, **how)
    if out.interrupted:
        raise KeyboardInterrupt(f"{who}: interrupted; nothing was drawn.")
    check_finite(out.states.position, out.info.ok, who)
    return out.states


@cache
def adam(rate: float, steps: int) -> Adam:
    """Built once: another schedule would compile anew."""
    return Adam(optax.cosine_decay_schedule(rate, steps, alpha=1e-3))


def check_finite(params: PyTree, ok: Any, who: str) -> None:
    """Refuse fits that all ended in NaN; where some did, say so: their draws are left out as diverged chains are."""
    leaves = [np.isfinite(np.asarray(u)).reshape(len(u), -1).all(axis=1) for u in jax.tree.leaves(params)]
    ok = np.asarray(ok)
    fine = np.all([*leaves, ok.all(axis=1)], axis=0)
    if fine.all():
        return
    first = int(np.argmin(ok.all(axis=0))) + 1
    lost = f"{int((~fine).sum())} of {len(fine)} fits, first near step {first}"
    what = f"{who}: the objective became NaN or infinite in {lost}"
    if not fine.any():
        raise FloatingPointError(f"{what}; lower `rate`, or look whether the log density is finite at the start.")
    warnings.warn(f"{what}; they are left out.", UserWarning, stacklevel=4)


@jax.jit
def begin_params(key: Key, family: Any, positions: PyTree) -> PyTree:
    """φ around every position."""
    keys = jax.random.split(key, jax.tree.leaves(positions)[0].shape[0])
    return jax.vmap(family.init)(keys, positions)


@jax.jit
def draw_each(key: Key, family: Any, params: PyTree) -> PyTree:
    """A draw of every fit."""
    keys = jax.random.split(key, jax.tree.leaves(params)[0].shape[0])
    return jax.vmap(family.sample)(keys, params)


def fit(
    key: Key,
    target: Any,
    family: Any,
    start: PyTree,
    *,
    draws: int = 1000,
    objective: Any = DEFAULT,
    steps: int = 5_000,
    rate: float = 1e-2,
    batch: int | None = None,
    weights: bool = False,
    **options: Any,
) -> Posterior:
    """Fit a family to a target around positions (chain, …), and draw from it: a Posterior like a sampler's.

    `posterior.more(key, target, n)` draws more; `approximation(posterior)` is q as a base for `log_evidence`;
    `pareto_k(posterior)` says how far q is from p.

    draws: of every fit.
    objective, steps, rate, batch: as in `Fit`.
    weights: weigh draws by p̃/q.
    options: of `sample`: callbacks, store, progress ….
    """
    check_family(family, Family, "vi.fit")
    tune = Fit(objective, steps, rate, batch)
    k_begin, k_fit = jax.random.split(key)
    kernel = Independent(family, weights=weights)
    states = begin_all(k_begin, kernel, target, start)
    return sample(k_fit, kernel, target, states, draws=draws, tune=tune, **options)
