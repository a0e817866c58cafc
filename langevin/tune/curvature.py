r"""Step size and scales of Langevin kernels without an acceptance rate, by curvature and gradient noise at the chains.

Let λ be the largest curvature of −log p around the chains and v the largest variance of the gradient estimate, both in
the kernel's own coordinates θ = Sφ. On N(0, 1/λ) the stationary variance of these schemes is known in closed form. With
T the temperature and C the friction, it is off by the relative amounts

    SGLD, PSGLD                  h (λ + v/T)/2            (Euler: Tσ²(1 + hv/2T)/(1 − hλ/2))
    SGHMC, SGNHT, Underdamped    h²λ/4 + h v/(2CT)        (leapfrog-like; for BAOAB the first term is a bound, it is 0)

to leading order. The step size is the one at which this is `bias`, in the stiffest or noisiest direction; in all others
it is less:

    h = 2·bias/(λ + v/T),      h = 2·bias/(q + √(q² + λ·bias)),  q = v/(2CT),  and hC ≤ ½.

S is diagonal where the kernel has a metric to set: M⁻¹ = 1/|diag ∇²(−log p)|, the mean over chains, by Rademacher
probes z∘(∇²z) (Hutchinson), exact where the curvature is diagonal. A metric that is given is kept. The floor of PSGLD
is half the root mean square of the gradient (`tune.metric_floor`), and S² = 1/floor is the largest that its D can be. λ
is found by power iteration and v from differences of two batches: the larger of the largest coordinate and of the
variance along the strongest direction, which is sought on one half of the differences and measured on the other.

Where noise bounds h, all C ≥ √λ_min mix at the rate of SGLD and a smaller C more slowly: on mini-batches C is raised to
√λ where it is below.

All is measured at the chains' positions, which then move for a round with what was found; the bias falls from tenfold
in the first round to the one asked for. Chains whose log density is not finite afterwards are put back, and the bias is
divided by four.

References
----------
Vollmer, Zygalakis & Teh (2016), Exploration of the (non-)asymptotic bias and variance of SGLD, §4.
Leimkuhler & Matthews (2015), Molecular Dynamics, §7.3.
Bekas, Kokiopoulou & Saad (2007), An estimator for the diagonal of a matrix, §2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree

from langevin.core import tree
from langevin.core.advance import MAPPED, advance, chains_of
from langevin.core.kernel import replace
from langevin.core.schedule import at
from langevin.core.target import HasBatches, need
from langevin.core.types import Key, PyTree, State, map_chains
from langevin.dynamics.mass import DiagonalMetric, IdentityMetric
from langevin.samplers.psgld import PSGLD
from langevin.samplers.sghmc import SGHMC
from langevin.samplers.sgld import SGLD
from langevin.samplers.sgnht import SGNHT
from langevin.samplers.underdamped import Underdamped
from langevin.tune.metric_floor import roots, squares
from langevin.tune.positions import tuner
from langevin.tune.trajectory import needs
from langevin.tune.warm_start import nothing

PROBES = 16  # for the diagonal of the curvature, at every chain
TURNS = 20  # of the power iteration
BATCHES = 8  # whose curvature is averaged
PAIRS = 32  # of batches whose gradients are compared
FIRST = 10.0  # times the bias, in the first round: chains that begin far away come nearer
SHARE = 0.5  # of the RMS gradient that the floor of PSGLD is


class Around(NamedTuple):
    """The largest curvature λ, over chains, and the largest variance v of the gradient, the mean over chains."""

    curvature: float
    noise: float


def overdamped(kernel: Any, around: Around, T: float, bias: float) -> float:
    """h at which h(λ + v/T)/2 is `bias`."""
    return 2 * bias / (around.curvature + around.noise / T)


def damped(kernel: Any, around: Around, T: float, bias: float) -> float:
    """h at which h²λ/4 + hv/(2CT) is `bias`, C the friction."""
    C = float(getattr(kernel, FRICTION[type(kernel)]))
    q = around.noise / (2 * C * T)
    return min(2 * bias / (q + np.sqrt(q**2 + around.curvature * bias)), 0.5 / C)


FRICTION = {SGHMC: "friction", Underdamped: "friction", SGNHT: "diffusion"}  # the field that holds C


RULES: dict[type, Callable[[Any, Around, float, float], float]] = {
    SGLD: overdamped,
    PSGLD: overdamped,
    SGHMC: damped,
    SGNHT: damped,
    Underdamped: damped,
}


@tuner
def curvature(
    key, kernel, target, states, *, bias: float = 0.05, rounds: int = 5, steps: int = 200
) -> tuple[Any, State]:
    """The kernel with a step size at which variances are off by `bias` at most, with its scales, and the states.

    It is measured in `rounds` rounds of `steps` steps each.
    """
    if type(kernel) not in RULES:
        known = ", ".join(cls.__name__ for cls in RULES)
        raise TypeError(
            f"curvature: there is no rule for the step size of {type(kernel).__name__}; there is for {known}."
        )
    needs("curvature", kernel, ("step_size", "temperature"))
    need(target, HasBatches, "curvature")
    if not 0 < bias < 1:
        raise ValueError(f"curvature: bias is {bias}; it must lie between 0 and 1.")
    given = isinstance(kernel, (SGHMC, Underdamped)) and not isinstance(kernel.metric, IdentityMetric)
    seen: list[PyTree] = []
    for i in range(rounds + 1):
        k_scale, k_look, k_run = jax.random.split(jax.random.fold_in(key, i), 3)
        if not given:
            seen = [*seen[-(rounds // 2) :], _scales(k_scale, kernel, target, states)]
            kernel = _scaled(kernel, jax.tree.map(lambda *u: sum(u) / len(u), *seen))
        around = look(k_look, target, states, _metric(kernel), noisy=target.stochastic)
        T = float(at(kernel.temperature, states.count)) or 1.0
        if target.stochastic and type(kernel) in FRICTION:
            name = FRICTION[type(kernel)]
            kernel = replace(kernel, **{name: max(float(getattr(kernel, name)), around.curvature**0.5)})
        if isinstance(kernel, SGNHT):  # its thermostat comes to a new mean only after C/(hT) steps
            states = states._replace(aux=(states.aux[0], jnp.full_like(states.aux[1], kernel.diffusion)))
        wanted = min(bias * FIRST ** (1 - i / rounds if rounds else 0), max(bias, 0.5))
        kernel = replace(kernel, step_size=RULES[type(kernel)](kernel, around, T, wanted))
        if i < rounds:
            states, lost = _moved(k_run, kernel, target, states, steps)
            bias = bias / 4 if lost else bias
    return kernel, states


# --- scales -----------------------------------------------------------------------------------------------------------


def _scales(key: Key, kernel: Any, target: Any, states: State) -> PyTree:
    """What the scales are made from, at the chains: |diagonal of the curvature|, of PSGLD the mean square gradient."""
    if isinstance(kernel, PSGLD):
        return squares(key, target, states, fraction=kernel.own_batch(target) or 1.0)
    return diagonal(key, target, states) if "metric" in {f.name for f in fields(kernel)} else ()


def _scaled(kernel: Any, scales: PyTree) -> Any:
    if isinstance(kernel, PSGLD):
        return replace(kernel, floor=roots(scales, SHARE))
    if not jax.tree.leaves(scales):
        return kernel
    return replace(kernel, metric=jacobi(scales))


def _metric(kernel: Any) -> Any:
    """The metric whose root takes the kernel's own coordinates to θ."""
    if isinstance(kernel, PSGLD):
        return DiagonalMetric(jax.tree.map(lambda f: 1 / f, kernel.floor))
    return kernel.metric if "metric" in {f.name for f in fields(kernel)} else IdentityMetric()


@jax.jit
def diagonal(key: Key, target: Any, states: State) -> PyTree:
    """|diag ∇²(−log p)|, the mean over probes and chains."""

    def one(key, state):
        k_batches, k_probe = jax.random.split(key)
        times = _times(k_batches, target, state)
        words, impl = jax.random.key_data(jax.random.split(k_probe, PROBES)), jax.random.key_impl(key)

        def probe(word):
            z = _signs(jax.random.wrap_key_data(word, impl=impl), state.position)
            return tree.mul(z, times(z))

        return jax.tree.map(lambda u: jnp.mean(u, 0), lax.map(probe, words))

    each = jax.vmap(one, (0, MAPPED))(jax.random.split(key, chains_of(states)), states)
    return jax.tree.map(lambda u: jnp.abs(jnp.mean(u, 0)), each)


def jacobi(scales: PyTree) -> DiagonalMetric:
    """The metric that makes a curvature of this diagonal 1 in every coordinate."""
    most = max(float(jnp.max(u)) for u in jax.tree.leaves(scales))
    return DiagonalMetric(jax.tree.map(lambda u: 1 / jnp.maximum(u, 1e-10 * most), scales))


def _signs(key: Key, like: PyTree) -> PyTree:
    flat, unravel = ravel_pytree(like)
    return unravel(jax.random.rademacher(key, flat.shape, flat.dtype))


def _times(key: Key, target: Any, state: State) -> Callable[[PyTree], PyTree]:
    """v ↦ −∇²log p v at the chain; on mini-batches the mean over BATCHES of them."""
    apply = lambda batch, v: jax.jvp(lambda p: target.evaluate(batch, p).grad, (state.position,), (v,))[1]
    if not target.stochastic:
        batch, _ = target.draw(key, state.feed)
        return lambda v: tree.scale(-1.0, apply(batch, v))
    batches = _batches(key, target, state, BATCHES)
    return lambda v: jax.tree.map(lambda u: -jnp.mean(u, 0), lax.map(lambda batch: apply(batch, v), batches))


def _batches(key: Key, target: Any, state: State, n: int) -> Any:
    """n batches one after the other, stacked."""
    impl = jax.random.key_impl(key)

    def one(feed, word):
        batch, feed = target.draw(jax.random.wrap_key_data(word, impl=impl), feed)
        return feed, batch

    return lax.scan(one, state.feed, jax.random.key_data(jax.random.split(key, n)))[1]


# --- the largest curvature and noise ----------------------------------------------------------------------------------


def look(key: Key, target: Any, states: State, metric: Any, *, noisy: bool) -> Around:
    """λ and v in the coordinates of a metric: the largest curvature over chains, and the mean noise."""
    curvature, noise = _look(key, target, states, metric, noisy=noisy)
    known = np.asarray(curvature, np.float64)
    known = known[np.isfinite(known)]
    if not known.size or not known.max() > 0:
        raise ValueError(
            "curvature: the log density has no finite second derivative at the start of any chain; start elsewhere, or "
            "set the step size by hand."
        )
    return Around(float(known.max()), float(np.nanmean(np.asarray(noise))))


@partial(jax.jit, static_argnames="noisy")
def _look(key: Key, target: Any, states: State, metric: Any, *, noisy: bool):
    def one(key, state):
        k_batches, k_first, k_noise = jax.random.split(key, 3)
        times = _times(k_batches, target, state)

        def turn(_, carry):
            v, _ = carry
            w = metric.pull(times(metric.root(v)))
            size = jnp.sqrt(tree.dot(w, w))
            return tree.scale(1 / jnp.maximum(size, 1e-30), w), size

        v = _signs(k_first, state.position)
        v = tree.scale(1 / jnp.sqrt(tree.dot(v, v)), v)
        _, largest = lax.fori_loop(0, TURNS, turn, (v, jnp.zeros(())))
        return largest, _noise(k_noise, target, state, metric) if noisy else jnp.zeros(())

    return jax.vmap(one, (0, MAPPED))(jax.random.split(key, chains_of(states)), states)


def _noise(key: Key, target: Any, state: State, metric: Any):
    """v at a chain."""
    batches = _batches(key, target, state, 2 * PAIRS)
    grads = lax.map(lambda batch: ravel_pytree(metric.pull(target.evaluate(batch, state.position).grad))[0], batches)
    x = (grads[::2] - grads[1::2]) / jnp.sqrt(2.0)
    first, second = x[: PAIRS // 2], x[PAIRS // 2 :]
    strongest = jnp.linalg.eigh(first @ first.T)[1][:, -1] @ first
    strongest = strongest / jnp.maximum(jnp.linalg.norm(strongest), 1e-30)
    return jnp.maximum(jnp.mean((second @ strongest) ** 2), jnp.max(jnp.mean(x**2, 0)))


def _moved(key: Key, kernel: Any, target: Any, states: State, steps: int) -> tuple[State, bool]:
    """The chains after a round, those that left the finite numbers put back; whether there were such."""
    out = advance(key, kernel, target, states, length=steps, collect=nothing, n=np.int32(steps)).states
    fine = jnp.isfinite(out.eval.log_density) & jax.vmap(tree.finite)((out.position, out.eval.grad))
    if bool(fine.all()):
        return out, False
    pick = lambda u, v: jnp.where(fine.reshape(-1, *([1] * (u.ndim - 1))), u, v)
    old = iter(jax.tree.leaves(states._replace(count=())))
    return map_chains(lambda part: jax.tree.map(lambda u: pick(u, next(old)), part), out), True
