r"""Independent draws from a fitted family, as a kernel: what makes a fit a posterior like any other.

    θ' ~ q_φ,  whatever θ was.

Draws are stored, gone on with, predicted from and reported by what serves every sampler. `weights=True` gives each draw
the weight p̃(θ)/q(θ), so that averages converge to those of p: importance sampling.

References
----------
Chen, Li, Zhang & Li, Bayesian Computation in Deep Learning, eqs. (2.7), (2.13).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from langevin.core import tree
from langevin.core.kernel import Kernel, audited, begin, report
from langevin.core.record import record, static
from langevin.core.target import HasDensity, Target, examples, provides
from langevin.core.types import Eval, Law, PyTree
from langevin.vi.families.mean_field import MeanField
from langevin.vi.family import Approximation, HasLogProb, check_family


@record
class Independent(Kernel):
    """Draws from an approximation of the target, each independent of the last.

    family: how q looks, such as MeanField().
    params: φ, which a fit finds.
    weights: weigh every draw by p̃/q, which needs the density of both.
    linearized: networks predict by their tangent at the mean, as a Laplace approximation wants.
    """

    family: Any = MeanField()
    params: PyTree = ()
    weights: bool = static(default=False)
    linearized: bool = static(default=False)
    audit = audited(excluded="it draws from what was fitted, and `vi.pareto_k` measures how far that is from p")

    @property
    def requires(self) -> Any:
        return HasDensity if self.weights else Target

    def init(self, key, position, target):
        return begin(key, position, target)

    def step(self, key, state, target):
        k_draw, k_eval = jax.random.split(key)
        position = self.family.sample(k_draw, self.params)
        if provides(target, HasDensity) and not target.stochastic:
            n_data = jnp.asarray(examples(target), jnp.int32)
            found, feed = Eval(target.log_density(position), tree.zeros_like(position), n_data), state.feed
        else:
            found, feed = target.estimate(k_eval, state.feed, position)
        weight = 0.0
        if self.weights:
            check_family(self.family, HasLogProb, "Independent(weights=True)")
            weight = found.log_density - self.family.log_prob(self.params, position)
        new = state._replace(position=position, eval=found, feed=feed, count=state.count + 1)
        return new, report(new, log_weight=weight, n_grad=0, n_data=found.n_data)

    def law(self) -> Law:
        name = type(self.family).__name__
        if self.weights:
            return Law("exact", 0.0, None, f"p, by importance weights of draws from q, a fitted {name}")
        tangent = ", of the network's tangent at its mean" if self.linearized else ""
        return Law("approximate", 0.0, self._approximation, f"q, a {name} fitted to p{tangent}")

    def _approximation(self, target: Any) -> Approximation:
        return Approximation(self.family, self.params)
