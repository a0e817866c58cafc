r"""Bidirectional Monte Carlo: log Z between a lower bound from below and an upper bound from above.

    lower = log mean e^W,    W of chains that climb from the base            (`ais.ais`)
    upper = −log mean e^−W,  W of chains that go down from draws of p        (`ais.reverse`)

E lower ≤ log Z ≤ E upper, and each is off by more than c on its wrong side with probability at most e^−c. Both come
together as the ladder grows finer, so their distance is a measure of how well the ladder and its kernel sample. Going
down needs exact draws of the posterior. Data simulated from the model have one: θ* ~ prior, y ~ p(y | θ*) makes θ* an
exact draw of p(θ | y), and `simulated` does that. For other data, draws of a long chain make the upper bound as good
as the chain is.

References
----------
Grosse, Ghahramani & Adams (2015), Sandwiching the marginal likelihood using bidirectional Monte Carlo.
Grosse, Ancha & Roy (2016), Measuring the reliability of MCMC inference with bidirectional Monte Carlo.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from langevin.core.kernel import replace
from langevin.core.types import Key, PyTree
from langevin.evidence.ais import ais, reverse, steps
from langevin.evidence.base import Base, checked, examples
from langevin.evidence.importance import drawn
from langevin.evidence.pilot import chosen, usable
from langevin.evidence.types import Evidence
from langevin.targets.path import Geometric


def bdmc(
    key: Key,
    target: Any,
    base: Base,
    draws: PyTree,
    *,
    ladder: Any = 1000,
    kernel: Any = None,
    particles: int = 200,
    thin: int = 1,
) -> Evidence:
    """log Z from below, with bounds from both sides: unbiased-Z.

    draws: exact draws (draw, …) of the target; one serves all the chains that go down. particles: chains each way.
    """
    usable(target, base, kernel)
    k_pilot, k_up, k_down = jax.random.split(key, 3)
    kernel, n_grad = chosen(k_pilot, kernel, Geometric(base, target), steps(ladder))
    how = dict(ladder=ladder, kernel=kernel, thin=thin)
    up = ais(k_up, target, base, particles=particles, **how)
    down = reverse(k_down, target, base, draws, particles=particles, **how)
    n_grad = n_grad + up.n_grad + down.n_grad
    return replace(up, upper=down.upper, n_grad=n_grad, n_data=n_grad * examples(target))


def simulated(key: Key, base: Base, simulate: Callable[[Key, PyTree], Any], **how: Any) -> Evidence:
    """The sandwich for data of the model's own: how far ladder and kernel are to be trusted on data like it.

    base: the prior. simulate: (key, θ) → the target, log prior + log likelihood of data drawn at θ. how: as in `bdmc`.
    """
    k_star, k_data, k_bdmc = jax.random.split(key, 3)
    star = drawn(k_star, checked(base), 1)
    target = simulate(k_data, jax.tree.map(lambda u: u[0], star))
    return bdmc(k_bdmc, target, base, star, **how)
