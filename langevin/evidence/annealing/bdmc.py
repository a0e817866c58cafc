r"""Bidirectional Monte Carlo: log Z between a lower bound from below and an upper bound from above.

    lower = log mean e^W,    W of chains annealed from the base              (`AIS`)
    upper = −log mean e^−W,  W of chains that go down from draws of p        (`Reverse`)

E lower ≤ log Z ≤ E upper, and each is off by more than c on its wrong side with probability at most e^−c. Both come
together as the ladder grows finer, so their distance is a measure of how well the ladder and its kernel sample. Going
down needs exact draws of the posterior. Data simulated from the model have one: θ* ~ prior, y ~ p(y | θ*) makes θ* an
exact draw of p(θ | y), and `bracket_simulated` does that. For other data, draws of a long chain make the upper bound as
good as the chain is.

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
from langevin.core.record import static
from langevin.core.types import Key, PyTree
from langevin.evidence.annealing.ais import AIS, Reverse
from langevin.evidence.annealing.ladder import to_host_ladder
from langevin.evidence.annealing.step_sizes import check_kernel, choose_kernel
from langevin.evidence.base import Base, check_base, draw
from langevin.evidence.method import Method, method
from langevin.evidence.types import Evidence, cost
from langevin.targets.path import Geometric


@method("bdmc")
class BDMC(Method):
    """log Z from below, with bounds from both sides, from exact draws (draw, …) of the target: unbiased-Z.

    One draw serves all the chains that go down.

    ladder: the rungs, or how many.
    kernel: an exact kernel, used as it is; None for HMC with step sizes from a pilot.
    particles: chains each way.
    thin: steps of the kernel at each rung.
    """

    ladder: Any = static(default=1000)
    kernel: Any = None
    particles: int = static(default=200)
    thin: int = static(default=1)
    needs_draws = True

    def __post_init__(self):
        check_kernel(self.kernel)

    def estimate_evidence(self, key, target, base, draws) -> Evidence:
        k_pilot, k_up, k_down = jax.random.split(key, 3)
        kernel, n_grad = choose_kernel(k_pilot, self.kernel, Geometric(base, target), to_host_ladder(self.ladder))
        settings = self.ladder, kernel, self.particles, self.thin
        up = AIS(*settings).estimate_evidence(k_up, target, base, None)
        down = Reverse(*settings).estimate_evidence(k_down, target, base, draws)
        return replace(up, upper=down.upper, **cost(n_grad + up.n_grad + down.n_grad, target))


def bracket_simulated(
    key: Key, base: Base, simulate: Callable[[Key, PyTree], Any], method: BDMC | None = None
) -> Evidence:
    """Both bounds for data simulated from the model: how good ladder and kernel are on data like it.

    base: the prior. simulate: (key, θ) → the target, log prior + log likelihood of data drawn at θ.
    """
    k_star, k_data, k_bdmc = jax.random.split(key, 3)
    star = draw(k_star, check_base(base), 1)
    target = simulate(k_data, jax.tree.map(lambda u: u[0], star))
    return (method or BDMC())(k_bdmc, target, base, star)
