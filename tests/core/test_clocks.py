"""Metrics from other chains and clocks that slow down: what is left out, or weighed, is what makes them right."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.kernel import replace
from langevin.core.record import record
from langevin.core.target import Density
from langevin.samplers.ensemble_sgld import EnsembleSGLD
from langevin.samplers.samadams import SamAdams

CHAINS = 8192


def standard(x):
    return -0.5 * jnp.sum(x**2)


@record
class Included(EnsembleSGLD):
    """The bug to see: every chain in its own mean."""

    def metric(self, grad):
        return (jnp.mean(grad**2, axis=0, keepdims=True) + self.floor**2) ** -0.5 * jnp.ones_like(grad)


def square(key, kernel, *, thin):
    """E x² from exact starts after a burn-in, with its standard error over groups; weighted and not."""
    k_start, k_init, k_run = jax.random.split(key, 3)
    target = Density(standard)
    states = begin_all(k_init, kernel, target, jax.random.normal(k_start, (CHAINS, 1)))
    run = advance(k_run, kernel, target, states, length=40, thin=thin, layout="vmap")
    x2 = np.asarray(run.kept, np.float64)[:, 20:, 0] ** 2
    out = []
    for log_weight in (np.asarray(run.info.log_weight, np.float64)[:, 20:], np.zeros_like(x2)):
        w = np.exp(log_weight)
        top, bottom = ((w * v).reshape(CHAINS // kernel.group, -1).sum(1) for v in (x2, np.ones_like(x2)))
        mean = top.sum() / bottom.sum()
        out.append((mean, (top - mean * bottom).std() / bottom.mean() / np.sqrt(len(top))))
    return out


def extrapolated(key, kernel, *, thin, order, weighted=True):
    k_whole, k_half = jax.random.split(key)
    h, which, p = float(kernel.step_size), 0 if weighted else 1, 2**order
    whole, whole_se = square(k_whole, kernel, thin=thin)[which]
    half, half_se = square(k_half, replace(kernel, step_size=h / 2), thin=2 * thin)[which]
    return (p * half - whole) / (p - 1), np.hypot(p * half_se, whole_se) / (p - 1)


@pytest.mark.slow
def test_a_chain_must_be_left_out_of_its_own_metric(key):
    """Two chains, λ = 0.1: leave-one-out has variance 1 as h → 0, the self-included metric has not."""
    k_out, k_in = jax.random.split(key)
    value, se = extrapolated(k_out, EnsembleSGLD(0.04, floor=0.1, group=2), thin=20, order=1)
    assert se < 0.03
    assert abs(value - 1) / se < 5
    value, se = extrapolated(k_in, Included(0.04, floor=0.1, group=2), thin=20, order=1)
    assert abs(value - 1) / se > 10


def test_a_diverged_chain_does_not_take_its_group_with_it():
    grad = jnp.array([[1.0], [jnp.nan], [2.0]])
    metric = np.asarray(EnsembleSGLD(group=3, floor=1.0).metric(grad))
    np.testing.assert_allclose(metric[:, 0], [3**-0.5, 3.5**-0.5, 1.5**-0.5], rtol=1e-6)
    with pytest.raises(ValueError, match="2 or more"):
        EnsembleSGLD(group=1)


def test_weights_undo_the_clock(key):
    """On N(0, 1), where one gradient sets the pace: weighted draws are right, the same draws unweighted are not."""
    kernel = SamAdams(0.2, friction=2.0, relaxation=5.0, power=1.0, slowest=0.2, fastest=5.0)
    value, se = extrapolated(key, kernel, thin=12, order=2)
    assert se < 0.02
    assert abs(value - 1) / se < 5
    value, se = extrapolated(jax.random.clone(key), kernel, thin=12, order=2, weighted=False)
    assert abs(value - 1) / se > 10
