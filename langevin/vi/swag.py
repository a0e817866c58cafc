r"""SWAG: a Gaussian of the iterates of an optimizer whose rate stays high.

From T iterates θ_t, `spacing` steps apart, with mean θ̄ and deviations of the last K,

    q(θ) = N(θ̄, ½ Σ_diag + ½ D Dᵀ/(K − 1)),      Σ_diag = mean θ² − θ̄²,      D = (θ_t − θ̄) of the last K.

q is a `LowRank` with factor D/√(2(K − 1)). Several chains are multi-SWAG: a mixture with one Gaussian a mode. How wide
q is depends on rate and batch, and not on the posterior alone; `scale` multiplies its covariance.

References
----------
Maddox, Garipov, Izmailov, Vetrov & Wilson (2019), A simple baseline for Bayesian uncertainty in deep learning,
    algorithm 1.
Wilson & Izmailov (2020), Bayesian deep learning and a probabilistic perspective of generalization, §3 (multi-SWAG).
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from langevin.core import rounds, sharding
from langevin.core.advance import chains_of
from langevin.core.kernel import PerChain, innermost, replace, spread
from langevin.core.record import positive, record, static
from langevin.core.run import run
from langevin.core.shards import Stored
from langevin.core.target import examples
from langevin.core.types import Key, State
from langevin.samplers.optimize import Optimize
from langevin.tune.positions import opened
from langevin.vi.families.low_rank import LowRank, Spread
from langevin.vi.fit import check_finite, of_small_batches
from langevin.vi.independent import Independent


@record
class SWAG:
    """A tuner of `Independent(LowRank())` by the iterates of an optimizer.

    rate: of the optimizer, for the mean loss.
    optimizer: "sgd", with momentum 0.9, or "adam".
    iterates: T.
    spacing: steps from one to the next.
    rank: K, at most T.
    scale: of the covariance.
    batch: examples in a step, where the target has mini-batches; None for its own.
    """

    rate: float = positive(default=0.01)
    optimizer: str = static(default="sgd")
    iterates: int = static(default=40)
    spacing: int = static(default=50)
    rank: int = static(default=20)
    scale: float = positive(default=1.0)
    batch: int | None = static(default=None)

    def __post_init__(self):
        if self.optimizer not in ("sgd", "adam"):
            raise ValueError(f"SWAG: optimizer is {self.optimizer!r}; it must be 'sgd' or 'adam'.")
        if not 2 <= self.rank <= self.iterates:
            raise ValueError(f"SWAG: rank is {self.rank} of {self.iterates} iterates; take 2 or more, and at most all.")

    def __call__(self, key: Key, kernel: Any, target: Any, states: State) -> tuple[Any, State]:
        drawn = innermost(kernel)
        if not isinstance(drawn, Independent):
            raise TypeError(f"vi.SWAG: the kernel is {type(drawn).__name__}; it must be Independent().")
        key, states = opened(key, kernel, target, states, "vi.SWAG")
        target = of_small_batches(target, self.batch)
        rate = self.rate if self.optimizer == "adam" else self.rate / examples(target)
        how: dict[str, Any] = dict(draws=self.iterates, thin=self.spacing, store=rounds.place("iterates"))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "run: chain")  # said below, of fits
            moving = Optimize(steady(self.optimizer, float(rate)))
            out = run(key, moving, target, states.position, chunk=self.iterates, **how)
        if out.interrupted:
            raise KeyboardInterrupt("vi.SWAG: interrupted; nothing was drawn.")
        kept = jax.tree.map(np.asarray, out.kept.load() if isinstance(out.kept, Stored) else out.kept)
        check_finite(kept, np.asarray(out.info.ok), "vi.SWAG")
        params = sharding.beside(jax.vmap(lambda u: moments(u, self.rank, self.scale))(kept), states)
        wide = spread(replace(drawn, family=LowRank(rank=self.rank), params=()), chains_of(states))
        return PerChain(replace(wide, params=params)), states._replace(position=params.mean)

    def work(self, n: int) -> tuple[int, int]:
        return self.iterates * self.spacing, min(self.batch or n, n)


@cache
def steady(name: str, rate: float) -> optax.GradientTransformation:
    """Built once: another object would compile anew."""
    return optax.adam(rate) if name == "adam" else optax.sgd(rate, momentum=0.9)


@jax.jit(static_argnames="rank")
def moments(iterates: Any, rank: int, scale: Any) -> Spread:
    """φ of a low-rank Gaussian from iterates (T, …)."""
    mean = jax.tree.map(lambda u: jnp.mean(u, axis=0), iterates)
    variance = jax.tree.map(lambda u: jnp.var(u, axis=0), iterates)
    factor = jax.tree.map(lambda u, m: (u[-rank:] - m) * jnp.sqrt(scale / (2 * (rank - 1))), iterates, mean)
    tiny = jax.tree.map(lambda m: 1e-12 + 1e-10 * m**2, mean)
    log_scale = jax.tree.map(lambda v, t: 0.5 * jnp.log(0.5 * scale * v + t), variance, tiny)
    return Spread(mean, log_scale, factor)
