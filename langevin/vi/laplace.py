r"""The Laplace approximation: a Gaussian at a trained position, whose precision is the curvature there.

    q(θ) = N(m, (G + P)⁻¹),      G: Gauss–Newton of the data,  P: of the prior (`vi.curvature`),

with all of G ("full"), its diagonal ("diagonal"), or of every array a diagonal in the eigenbasis of the nearest
Kronecker product ("kronecker"); of all arrays or of those whose paths match `part` ("last layer"). m is the position it
is given, after `newton` steps m ← m + (G + P)⁻¹ ∇log p. The evidence of the approximation is

    log Z ≈ log p̃(m) − log q(m),

and what maximizes it at fixed weights and curvature (`vi.marginal`) can take the place of the prior's standard
deviations (`prior="evidence"`: times one c for all with "full", else one for every array) and of a learned σ
(`noise="evidence"`).

Draws of a wide Gaussian leave the region in which the net is nearly linear, and predict worse than the mean alone.
`linearized` replaces the net by its tangent at m, in which q is the posterior.

References
----------
MacKay (1992), A practical Bayesian framework for backpropagation networks.
Daxberger, Kristiadi, Immer, Eschenhagen, Bauer & Hennig (2021), Laplace redux: effortless Bayesian deep learning.
Immer, Korzepa & Bauer (2021), Improving predictions of Bayesian neural nets via local linearization, eq. (8).
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import solve_triangular

from langevin.core import sharding, tree
from langevin.core.advance import chains_of
from langevin.core.kernel import PerChain, innermost, replace, spread
from langevin.core.posterior import Posterior
from langevin.core.record import record, static
from langevin.core.target import HasLikelihood, need
from langevin.core.types import Key, PyTree, State
from langevin.tune.positions import tuner
from langevin.vi import curvature
from langevin.vi.families.eigenbasis import Eigenbasis, Turned
from langevin.vi.families.full_rank import LARGEST, Factored, FullRank, factor_of
from langevin.vi.families.mean_field import MeanField, Normal
from langevin.vi.families.part import Held, Part
from langevin.vi.family import Approximation
from langevin.vi.independent import Independent
from langevin.vi.marginal import Group, HasNoise, best_noise, best_scale, without_noise

Structure = Literal["diagonal", "kronecker", "full"]
FAMILIES: dict[str, Any] = {"diagonal": MeanField(), "kronecker": Eigenbasis(), "full": FullRank()}


@record
class Laplace:
    """A tuner of `Independent`: the Gaussian of the curvature where each chain is.

    structure: "diagonal", "kronecker" or "full".
    part: patterns of the arrays it is of; the others stay.
    prior: "given", or "evidence": its standard deviations are multiplied by what maximizes the evidence.
    noise: "given", or "evidence": a σ that is learned is multiplied by what maximizes the evidence.
    newton: steps to the mode before.
    """

    structure: Structure = static(default="kronecker")
    part: tuple[str, ...] = static(default=("*",))
    prior: Literal["given", "evidence"] = static(default="given")
    noise: Literal["given", "evidence"] = static(default="given")
    newton: int = static(default=0)

    def __post_init__(self):
        if self.structure not in get_args(Structure):
            raise ValueError(f"Laplace: structure is {self.structure!r}; there are {', '.join(get_args(Structure))}.")
        for name in ("prior", "noise"):
            if getattr(self, name) not in ("given", "evidence"):
                raise ValueError(f"Laplace: {name} is {getattr(self, name)!r}; it must be 'given' or 'evidence'.")
        if self.newton < 0:
            raise ValueError(f"Laplace: newton is {self.newton}; it must be 0 or more.")

    @property
    def family(self) -> Any:
        """What `Independent` will hold."""
        whole = FAMILIES[self.structure]
        return whole if self.part == ("*",) else Part(whole, self.part)

    def __call__(self, key: Key, kernel: Any, target: Any, states: State) -> tuple[Any, State]:
        return approximate(key, kernel, target, states, self)

    def work(self, n: int) -> tuple[int, int]:
        return 30, n


@tuner
def approximate(key, kernel, target, states, how: Laplace) -> tuple[Any, State]:
    """The kernel with the Gaussian of every chain, and the states it got."""
    if not isinstance(innermost(kernel), Independent):
        raise TypeError(f"vi.Laplace: the kernel is {type(innermost(kernel)).__name__}; it must be Independent().")
    need(target, HasLikelihood, "vi.Laplace")
    if how.structure == "kronecker" and not isinstance(target.log_likelihood, curvature.HasOutputs):
        raise TypeError(
            "vi.Laplace: 'kronecker' needs a likelihood with outputs, as `bnn` builds; take 'diagonal' or 'full'."
        )
    likelihood = target.log_likelihood
    if how.noise == "evidence" and not (isinstance(likelihood, HasNoise) and likelihood.learns_noise):
        raise TypeError(
            "vi.Laplace: noise='evidence' needs a likelihood with one σ that is learned, as kind='gaussian' of `bnn`."
        )
    d = tree.size(how.family.chosen(_first(states)) if isinstance(how.family, Part) else _first(states))
    if how.structure == "full" and d > LARGEST:
        raise ValueError(
            f"vi.Laplace: {d} coordinates, and a dense covariance is made of {LARGEST} at most; take 'kronecker'."
        )
    if how.structure != "full" and not bool(curvature.is_factorized(target, _first(states))):
        raise ValueError(
            f"vi.Laplace: the prior correlates coordinates, which {how.structure!r} leaves out; take structure='full'."
        )
    here = sharding.gathered((target, states.position))
    params, fine = _fitted(*here, how)
    if not bool(jnp.all(fine)):
        raise ValueError(
            f"vi.Laplace: the curvature is not positive in {int(jnp.sum(~fine))} of {len(fine)} chains, so there is no "
            "Gaussian: climb to a mode first, give the prior a finite width, or look for outputs that are not finite."
        )
    wide = spread(replace(innermost(kernel), family=how.family, params=()), chains_of(states))
    made = PerChain(replace(wide, params=sharding.beside(params, states)))
    return made, states


def _first(states: State) -> PyTree:
    return jax.tree.map(lambda u: u[0], states.position)


class Slice(NamedTuple):
    """A target as a function of some arrays of its position."""

    target: Any
    family: Any
    position: PyTree

    @property
    def data(self):
        return self.target.data

    @property
    def log_likelihood(self):
        inner = self.target.log_likelihood
        return Sliced(inner, self.merged) if isinstance(inner, curvature.HasOutputs) else self.likelihood

    def merged(self, part):
        return self.family.merged(part, self.position) if isinstance(self.family, Part) else part

    def likelihood(self, part, data):
        return self.target.likelihood(self.merged(part), data)

    def prior(self, part):
        return self.target.prior(self.merged(part))

    def log_density(self, part):
        return self.target.log_density(self.merged(part))


class Sliced(NamedTuple):
    """A log likelihood as a function of some arrays of the position."""

    inner: Any
    merged: Any

    def outputs(self, part, data):
        return self.inner.outputs(self.merged(part), data)

    def given(self, out, data):
        return self.inner.given(out, data)

    def root(self, out, data):
        return self.inner.root(out, data)


@jax.jit
def _fitted(target, positions, how):
    """φ of every chain, and whether its curvature is positive."""

    def one(position):
        for _ in range(how.newton):
            position = _moved(target, position)
        if how.noise == "evidence":
            s = best_noise(target, position, _groups(target, position, how), adapt=how.prior == "evidence")
            position = target.log_likelihood.scale_noise(position, s)
        aim, part = _cut(target, position, how.family)
        params, fine = BUILD[how.structure](aim, part, how.prior == "evidence")
        return (Held(params, position) if isinstance(how.family, Part) else params), fine

    return lax.map(one, positions)


def _cut(target, position, family) -> tuple[Slice, PyTree]:
    """The target of the arrays that are fitted, and these."""
    return Slice(target, family, position), family.chosen(position) if isinstance(family, Part) else position


def _groups(target, position, how) -> list[Group]:
    """What the evidence is made of, without log σ itself."""
    kept = without_noise(target.log_likelihood, position)
    kept = how.family.chosen(kept) if isinstance(how.family, Part) else kept
    aim, part = _cut(target, position, how.family)
    if how.structure == "full":
        data, prior = (f(aim, part, dense=True) for f in (curvature.of_data, curvature.of_prior))
        return [_whitened(data, prior, ravel_pytree(part)[0], ravel_pytree(kept)[0])]
    data, prior, _ = _spectrum(aim, part, how.structure)
    one = lambda g, p, m, k: Group((k * g / jnp.maximum(p, 1e-12)).reshape(-1), jnp.sum(k * m**2 * p))
    found = jax.tree.map(one, data, prior, part, kept)
    return jax.tree.leaves(found, is_leaf=lambda u: isinstance(u, Group))


def _moved(target, position):
    """A step of Newton's method, by the whole of G."""
    flat, unravel = ravel_pytree(position)
    grad = jax.grad(lambda flat: target.log_density(unravel(flat)))(flat)
    precision = curvature.of_data(target, position, dense=True) + curvature.of_prior(target, position, dense=True)
    return unravel(flat + jnp.linalg.solve(precision, grad))


def _spectrum(target, position, structure):
    """Of every array the curvature of data and of prior along coordinates, or along a Kronecker product's basis."""
    unravel = ravel_pytree(position)[1]
    prior = unravel(curvature.diagonal_of_prior(target, position))
    if structure == "diagonal":
        return unravel(curvature.of_data(target, position, dense=False)), prior, None
    bases = [(jnp.linalg.eigh(a)[1], jnp.linalg.eigh(b)[1]) for a, b in curvature.kronecker(target, position)]
    leaves, treedef = jax.tree.flatten(position)
    found = curvature.in_basis(target, position, bases)
    data = jax.tree.unflatten(treedef, [g.reshape(u.shape) for g, u in zip(found, leaves, strict=True)])
    # the prior is alike within an array, so that it is a multiple of the identity in any basis
    return data, jax.tree.map(lambda p: jnp.full_like(p, jnp.mean(p)), prior), bases


def _separate(structure, target, position, adapt):
    """A Gaussian that is independent along coordinates or along a basis."""
    data, prior, bases = _spectrum(target, position, structure)
    scales = _scales(data, prior, position, adapt)
    precision = jax.tree.map(lambda g, p, c: g + p / c**2, data, prior, scales)
    fine = jnp.all(ravel_pytree(precision)[0] > 0)
    log_scale = jax.tree.map(lambda u: -0.5 * jnp.log(u), precision)
    return (Normal(position, log_scale) if bases is None else Turned(position, log_scale, bases)), fine


def _full(target, position, adapt):
    data = curvature.of_data(target, position, dense=True)
    prior = curvature.of_prior(target, position, dense=True)
    flat = ravel_pytree(position)[0]
    scale = best_scale(*_whitened(data, prior, flat, jnp.ones_like(flat))) if adapt else jnp.ones(())
    low = inverse_root(data + prior / scale**2)
    fine = jnp.all(jnp.isfinite(low)) & jnp.all(jnp.diagonal(low) > 0)
    return Factored(position, factor_of(low)), fine


def _whitened(data, prior, flat, kept) -> Group:
    """The eigenvalues of P^{−½} G P^{−½}, by P's diagonal, of the coordinates that are kept."""
    root = kept * lax.rsqrt(jnp.maximum(jnp.diagonal(prior), 1e-12))
    values = jnp.linalg.eigvalsh(root[:, None] * data * root[None])
    return Group(jnp.maximum(values, 0.0), jnp.sum(kept * flat**2 * jnp.diagonal(prior)))


BUILD: dict[str, Any] = {
    "diagonal": partial(_separate, "diagonal"),
    "kronecker": partial(_separate, "kronecker"),
    "full": _full,
}


def inverse_root(precision: jax.Array) -> jax.Array:
    """The lower triangle L with L Lᵀ = precision⁻¹; NaN where it is not positive definite."""
    upper = jnp.linalg.cholesky(precision[::-1, ::-1])[::-1, ::-1]  # precision = U Uᵀ with U upper
    return solve_triangular(upper.T, jnp.eye(len(precision)), lower=True)


def _scales(data, prior, position, adapt):
    """Of every array, the multiplier of its prior's standard deviation."""
    if not adapt:
        return jax.tree.map(lambda u: jnp.ones(()), position)
    one = lambda g, p, m: best_scale((g / jnp.maximum(p, 1e-12)).reshape(-1), jnp.sum(m**2 * p))
    return jax.tree.map(one, data, prior, position)


def laplace_evidence(target: Any, q: Approximation) -> jax.Array:
    """log p̃(m) − log q(m), the evidence of a Gaussian q: `laplace_evidence(target, approximation(fit, 0))`."""
    at = q.family.mean(q.params)
    return target.log_density(at) - q.log_density(at)


def linearized(posterior: Posterior) -> Posterior:
    """Draws that carry the mean of their fit as `center`: a network then predicts by its tangent there."""
    kernel = posterior.kernel
    drawn = innermost(kernel)
    if not isinstance(drawn, Independent):
        raise TypeError(f"vi.linearized: the posterior is of {type(drawn).__name__}; it must be of a Laplace fit.")
    posterior = posterior.loaded()
    if isinstance(posterior.draws, dict) and "center" in posterior.draws:
        return posterior
    mean = jax.vmap(lambda one: one.family.mean(one.params))(drawn) if isinstance(kernel, PerChain) else None
    if mean is None:
        mean = jax.tree.map(lambda u: u[None], drawn.family.mean(drawn.params))
    n = posterior.info.ok.shape
    center = jax.tree.map(lambda u: np.broadcast_to(np.asarray(u)[:, None], (*n, *u.shape[1:])), mean)
    return dataclasses.replace(posterior, draws={**posterior.draws, "center": center})
