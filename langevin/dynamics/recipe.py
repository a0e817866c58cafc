r"""The complete recipe (Ma, Chen & Fox 2015): a sampler states D and Q as mat-vecs and is done.

On z = (position, aux) with H(z) = −log p(θ) + g(aux),

    dz = [−(D + Q)∇H + T Γ] dt + √(2 T D) dW,      Γ_i = Σ_j ∂_j (D_ij + Q_ij),

leaves exp(−H/T) invariant for any positive semi-definite D and skew Q. One step advances aux with everything old and
then position with the new aux (symplectic Euler, the order of Chen, Fox & Guestrin 2014, alg. 2), each

    z ← z + h [T Γ − (D + Q)∇H] + √(2 T h) √D ξ,

weak order 1, one gradient a step, evaluated at the new position. Whole-tree couplings (thermostats) are natural,
since D and Q see all of z. Γ is stated by the author and checked in the tests against the autodiff divergence of D
+ Q.

References
----------
Ma, Chen & Fox (2015), A complete recipe for stochastic gradient MCMC, eqs. (3)-(5), (9).
Chen, Fox & Guestrin (2014), Stochastic gradient Hamiltonian Monte Carlo, alg. 2.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from langevin.core import noise, tree
from langevin.core.kernel import Kernel, begin, report
from langevin.core.schedule import at
from langevin.core.types import Law


class Recipe(Kernel):
    """Abstract: a subclass has fields step_size, temperature and noise, and states D and √D (Q, Γ if not zero)."""

    step_size: Any
    temperature: Any
    noise: Any

    def auxiliary(self, key, position):
        """A draw of aux from its own law."""
        return ()

    def kinetic(self, aux):
        """g(aux)."""
        return jnp.zeros(())

    def D(self, z, memory, v):
        """D(z) v."""
        raise NotImplementedError

    def sqrt_D(self, z, memory, v):
        """√D(z) v."""
        raise NotImplementedError

    def Q(self, z, memory, v):
        """Q(z) v."""
        return tree.zeros_like(v)

    def gamma(self, z, memory):
        """Γ(z)."""
        return tree.zeros_like(z)

    def remember(self, memory, grad):
        """The memory after one more gradient; `memory` is None before the first."""
        return ()

    def init(self, key, position, target):
        k_eval, k_aux = jax.random.split(key)
        state = begin(k_eval, position, target, self.auxiliary(k_aux, position))
        return state._replace(memory=self.remember(None, state.eval.grad))

    def step(self, key, state, target):
        k_noise, k_eval = jax.random.split(key)
        h, T = at(self.step_size, state.count), at(self.temperature, state.count)
        z, memory = (state.position, state.aux), state.memory
        xi = noise.like(k_noise, z, self.noise)
        minus_grad = tree.scale(-1.0, state.eval.grad)

        def moved(z):
            grad_H = minus_grad, jax.grad(self.kinetic)(z[1])
            return jax.tree.map(
                lambda u, d, q, c, n: (u + h * (T * c - d - q) + jnp.sqrt(2 * T) * jnp.sqrt(h) * n).astype(u.dtype),
                z,
                self.D(z, memory, grad_H),
                self.Q(z, memory, grad_H),
                self.gamma(z, memory),
                self.sqrt_D(z, memory, xi),
            )

        aux = moved(z)[1]
        position = moved((state.position, aux))[0]
        evaluation, feed = target.estimate(k_eval, state.feed, position)
        memory = self.remember(memory, evaluation.grad)
        new = state._replace(
            position=position, aux=aux, memory=memory, eval=evaluation, feed=feed, count=state.count + 1
        )
        return new, report(new)

    def law(self) -> Law:
        return Law("order", 1.0, None, "p^(1/T) as h → 0; bias O(h), plus O(h) from mini-batch noise")
