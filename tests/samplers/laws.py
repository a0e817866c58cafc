"""What a kernel converges to, measured: moments with standard errors, their limit h → 0, and the truth."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from langevin.core import noise, tree
from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.kernel import replace
from langevin.core.types import State
from langevin.targets.zoo import Scales, Skew

CHAINS, DRAWS = 2048, 40
STILL = State((), (), (), (), (), ())
TARGETS = {"scales": Scales(), "skew": Skew()}


def powers(state):
    """x, x², x⁴ of every coordinate: what the law is judged by."""
    x = ravel_pytree(state.position)[0]
    return jnp.stack([x, x**2, x**4])


def powers_of_each(state):
    """The same for every chain of a group."""
    return jax.vmap(lambda position: powers(state._replace(position=position)))(state.position)


def group_of(kernel):
    return kernel.group


def powers_for(kernel):
    return powers if group_of(kernel) == 1 else powers_of_each


def starts(key, kernel, target):
    """A position, or as many as the kernel moves together."""
    positions = target.exact(key, group_of(kernel))
    return positions if group_of(kernel) > 1 else jax.tree.map(lambda u: u[0], positions)


def ratio(numerator, denominator):
    """Σ numerator / Σ denominator over the first axis, and its standard error by the delta method."""
    mean = numerator.sum(0) / denominator.sum(0)
    spread = (numerator - mean * denominator).std(0) / denominator.mean(0)
    return mean, spread / np.sqrt(len(numerator))


@cache
def draws_of(name, temperature=1.0, n=1 << 18):
    """Exact draws (of p^(1/T) if p is a centred Gaussian) and the three moments of each."""
    draws = tree.scale(np.sqrt(temperature), TARGETS[name].exact(noise.key(123, impl="hash"), n))
    return draws, np.asarray(jax.jit(jax.vmap(lambda p: powers(STILL._replace(position=p))))(draws), np.float64)


@cache
def truth(name, temperature=1.0):
    """The same three moments from exact draws, with their standard errors."""
    _, values = draws_of(name, temperature)
    return ratio(values, np.ones((len(values), 1, 1)))


def truth_under(density, name, temperature=1.0):
    """The moments of a named law, by reweighting exact draws of p^(1/T)."""
    draws, values = draws_of(name, temperature)
    law = density(TARGETS[name])

    @partial(jax.jit, static_argnames="part")
    def log_weight(draws, part):
        one = lambda p: law.log_density(p) - TARGETS[name].log_density(p) / temperature
        return jax.lax.map(one, draws, batch_size=part)

    log_w = np.asarray(log_weight(draws, 1 << 14), np.float64)
    w = np.exp(log_w - log_w.max())
    assert w.sum() ** 2 / (w**2).sum() > 1000, "exact draws say too little of this law; choose a milder setting"
    return ratio(w[:, None, None] * values, w[:, None, None])


def measured(key, kernel, target, row, temperature=1.0):
    """Weighted moments under the kernel from exact starts after a burn-in, with standard errors.

    Chains (groups of chains) are independent, draws of one are not: sums of weight·value and of weight over a chain (a
    group) are what the delta method sees. Draws of log_weight −inf do not enter.
    """
    k_start, k_init, k_run = jax.random.split(key, 3)
    start = tree.scale(np.sqrt(temperature), target.exact(k_start, CHAINS))
    states = begin_all(k_init, kernel, target, start)
    keep = powers_for(kernel)
    run = advance(k_run, kernel, target, states, length=DRAWS, thin=row.thin, collect=keep, layout="vmap")
    assert np.all(run.info.ok)
    kept, log_w = (np.asarray(u, np.float64)[:, DRAWS // 2 :] for u in (run.kept, run.info.log_weight))
    w = np.exp(log_w - log_w.max())[..., None, None]
    together = lambda u: u.reshape(CHAINS // group_of(kernel), -1, *u.shape[2:]).sum(1)
    return ratio(together(w * kept), together(w))


def extrapolated(key, kernel, name, row, temperature=1.0):
    """Moments under the kernel with standard errors: as they are (exact kernels), or Richardson extrapolated to h = 0
    by the order claimed."""
    target, law = TARGETS[name], kernel.law()
    k_whole, k_half = jax.random.split(key)
    whole, whole_se = measured(k_whole, kernel, target, row, temperature)
    if law.kind == "exact":
        return whole, whole_se
    inner = kernel.kernel if hasattr(kernel, "kernel") else kernel
    finer = replace(kernel, step_size=float(inner.step_size) / 2)
    half, half_se = measured(k_half, finer, target, row, temperature)
    p = 2.0**law.order
    return (p * half - whole) / (p - 1), np.hypot(p * half_se, whole_se) / (p - 1)


def check_law(key, kernel, name, row, temperature=1.0):
    """|z| < 5 for every moment under the law claimed; a wrong law must also be seen to be wrong."""
    law = kernel.law()
    if law.kind == "wrong" and (law.density is None or law.order == 0):
        pytest.skip(f"no law to hold it to: {law.words}")
    value, se = extrapolated(key, kernel, name, row, temperature)
    if law.kind == "wrong":
        exact, exact_se = truth(name, temperature)
        apart = (value - exact) / np.hypot(se, exact_se)
        assert np.abs(apart).max() > 10, f"said to be wrong, but as p: z =\n{np.round(apart, 1)}"
        exact, exact_se = truth_under(law.density, name, temperature)
    else:
        exact, exact_se = truth(name, temperature)
    z = (value - exact) / np.hypot(se, exact_se)
    assert np.all(np.abs(z) < 5), f"T = {temperature} on {name}: z =\n{np.round(z, 1)}"
