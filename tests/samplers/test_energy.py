"""The step size of microcanonical kernels by their energy error."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from energy_error import CHAINS, SIZE, TARGET, D, begin

from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.kernel import PerChain, replace
from langevin.core.moments import effective
from langevin.core.target import Density
from langevin.dynamics.mass import DiagonalMetric
from langevin.samplers.mclmc import MCLMC
from langevin.targets.zoo import Gaussian
from langevin.tune.mclmc import Seeking, Sought, Wanted, tune_mclmc


def squares(key, kernel, states, target=TARGET):
    """E[ΔE²]/d of every chain."""
    info = advance(key, kernel, target, states, length=500).info
    return np.mean(np.asarray(info.energy_error, np.float64) ** 2, axis=1) / D


def meets(each, variance):
    """E[ΔE²]/d is what was asked for within 25 %, and five standard errors of the look at it."""
    return abs(each.mean() / variance - 1) < 0.25 + 5 * each.std() / each.mean() / np.sqrt(len(each))


def test_one_fixed_point_from_everywhere(key):
    """ε from far below, below and above ends where E[ΔE²]/d is what was asked for."""
    found = []
    for first, k in zip((1e-4, 0.1 * D**0.5, 3 * D**0.5), jax.random.split(key, 3), strict=True):
        kernel = MCLMC(first, D**0.5)
        states, k_tune, k_run = begin(k, kernel)
        tuned, states = tune_mclmc(k_tune, kernel, TARGET, states, steps=500, share=(1, 0, 0))
        assert float(tuned.length) == pytest.approx(D**0.5)
        assert meets(squares(k_run, tuned, states), 5e-4)
        found.append(float(tuned.step_size))
    assert max(found) / min(found) < 1.2


def test_lengths_by_variance_and_by_autocorrelation(key):
    """Phase 2 gives √(Σ Var), phase 3 0.4 of the path for each effective draw of another run at the same ε and L."""
    kernel = MCLMC(1.0, D**0.5)
    states, k_tune, k_run = begin(key, kernel)
    k_tune, k_third = jax.random.split(k_tune)
    tuned, states = tune_mclmc(k_tune, kernel, TARGET, states, steps=1000, share=(0.5, 0.5, 0))
    # 16 chains of 500 steps, an effective draw every few steps, over 50 coordinates: 1 %, and the bias of O(ε²)
    assert abs(float(tuned.length) / SIZE - 1) < 0.05

    last, states = tune_mclmc(k_third, tuned, TARGET, states, steps=500, share=(0, 0, 1))
    np.testing.assert_allclose(last.step_size, tuned.step_size, rtol=1e-5)
    draws = np.asarray(advance(k_run, tuned, TARGET, states, length=500).kept, np.float64)
    steps = np.mean([500 / effective(x[None]) for x in draws])
    assert abs(float(last.length) / (0.4 * float(tuned.step_size) * steps) - 1) < 0.1


@pytest.mark.slow
def test_thinning_does_not_change_the_unit(key, monkeypatch):
    """L by autocorrelation is a path, however few of the positions are kept."""
    kernel = MCLMC(0.5, 3.0)
    states, k_tune, _ = begin(key, kernel)
    lengths = []
    for kept in (500, 125):
        monkeypatch.setattr("langevin.tune.trajectory.KEPT", kept)
        tuned, _ = tune_mclmc(jax.random.clone(k_tune), kernel, TARGET, states, steps=500, share=(0, 0, 1))
        lengths.append(float(tuned.length))
    assert abs(lengths[1] / lengths[0] - 1) < 0.15


@pytest.mark.slow
def test_diagonal_metric(key):
    target = Gaussian.conditioned(D, 1e4)
    kernel = MCLMC(0.1, D**0.5)
    states, k_tune, k_run = begin(key, kernel, target)
    tuned, states = tune_mclmc(k_tune, kernel, target, states, steps=3000, diagonal=True, share=(0.2, 0.8, 0))
    assert isinstance(tuned.metric, DiagonalMetric)
    assert float(tuned.length) == pytest.approx(D**0.5)
    # slow coordinates have few effective draws in 1600 steps: √(2/16) at the most, as in test_tune
    assert np.all(np.abs(np.asarray(tuned.metric.variance / target.variance) - 1) < 5 * np.sqrt(2 / CHAINS) * 0.5)
    each = squares(k_run, tuned, states, target)
    assert meets(each, 5e-4)


def test_per_chain(key):
    kernel = MCLMC(1.0, D**0.5)
    states, k_tune, k_run = begin(key, kernel)
    tuned, states = tune_mclmc(k_tune, kernel, TARGET, states, steps=1500, per_chain=True)
    assert isinstance(tuned, PerChain)
    for value in (tuned.kernel.step_size, tuned.kernel.length):
        assert value.shape == (CHAINS,)
        assert np.unique(np.asarray(value)).size == CHAINS
    each = squares(k_run, tuned, states)
    assert meets(each, 5e-4)


def test_the_schedule_of_mile(key):
    """v from 0.5 to 0.1 over the first phase, and 0.1 in the second: the last is met."""
    kernel = MCLMC(1.0, D**0.5)
    states, k_tune, k_run = begin(key, kernel)
    tuned, states = tune_mclmc(k_tune, kernel, TARGET, states, steps=1000, variance=(0.5, 0.1), share=(0.5, 0.5, 0))
    assert meets(squares(k_run, replace(tuned, length=D**0.5), states), 0.1)


def test_schedules_are_straight_or_geometric():
    straight, geometric = Wanted(0.5, 0.1, 10, 100), Wanted(10.0, 0.1, 10, 100)
    np.testing.assert_allclose([straight(t) for t in (0, 10, 60, 110, 200)], [0.5, 0.5, 0.3, 0.1, 0.1], rtol=1e-6)
    np.testing.assert_allclose([geometric(t) for t in (10, 60, 110, 200)], [10.0, 1.0, 0.1, 0.1], rtol=1e-5)


def test_the_rule_is_the_published_one():
    """X, W and ε of the rule as it is written, in float64, against r, W, log ε as they are carried."""
    seeking = Seeking(MCLMC(0.3, 1.0), Wanted(1.0, 1.0, 0, 1), trust=1.5, memory=20.0)
    f = lambda v: jnp.float32(v)
    sought = Sought(f(0), f(1), jnp.log(f(0.3)), f(jnp.inf), f(1.0), f(0))
    X, W, step, rho = 0.0, 0.0, 0.3, 19 / 21
    for xi in np.random.default_rng(0).chisquare(1, 100):
        more = xi + 1e-8
        w = np.exp(-0.5 * (np.log(more) / 9) ** 2)
        X, W = rho * X + w * more / step**6, rho * W + w
        step = min((X / W) ** (-1 / 6), 2 * step)
        sought = seeking._moved(sought, f(xi), jnp.asarray(True))
        np.testing.assert_allclose(jnp.exp(sought.log_step), step, rtol=1e-4)
        np.testing.assert_allclose(sought.weight, W, rtol=1e-4)


def walled(x):
    """A standard normal with a wall: beyond radius 6 there is nothing to evaluate."""
    return jnp.where(jnp.sum(x**2) < 36.0, -0.5 * jnp.sum(x**2), jnp.nan)


def cliff(x):
    """The same with a fall of millions there."""
    return -0.5 * jnp.sum(x**2) - 1e6 * jnp.maximum(jnp.linalg.norm(x) - 6.0, 0.0)


@pytest.mark.parametrize("density", [walled, cliff])
def test_a_step_over_a_wall_or_a_cliff_is_undone(key, density):
    """Position and evaluation go back together, the velocity is new, ε is 0.8 of what it was."""
    kernel, target = MCLMC(30.0, 1.0), Density(density)
    k_init, k_step = jax.random.split(key)
    seeking = Seeking(kernel, Wanted(5e-4, 5e-4, 0, 1))
    state = seeking.init(k_init, jnp.full(4, 0.5), target)
    new, info = seeking.step(k_step, state, target)
    assert not bool(info.ok)
    for a, b in ((new.position, state.position), (new.eval, state.eval)):
        jax.tree.map(np.testing.assert_array_equal, a, b)
    assert np.abs(np.asarray(new.aux - state.aux)).max() > 0.01
    assert float(jnp.linalg.norm(new.aux)) == pytest.approx(1.0, abs=1e-6)
    sought = new.memory[1]
    np.testing.assert_allclose([jnp.exp(sought.log_step), jnp.exp(sought.log_most)], [24.0, 24.0], rtol=1e-5)
    assert float(sought.weight) == 0.0
    assert int(new.count) == 1


@pytest.mark.slow
def test_a_region_of_nan_is_survived(key):
    """Chains that begin with steps over the wall end with a small ε, finite, on this side of it."""
    kernel, target = MCLMC(30.0, 2.0), Density(walled)
    k_init, k_tune, k_run = jax.random.split(key, 3)
    states = begin_all(k_init, kernel, target, jnp.full((CHAINS, 4), 0.5))
    tuned, states = tune_mclmc(k_tune, kernel, target, states, steps=600)
    assert np.all(np.sum(np.asarray(states.position) ** 2, axis=1) < 36)
    assert np.all(np.isfinite(states.eval.grad))
    np.testing.assert_allclose(states.eval.log_density, jax.vmap(walled)(states.position), rtol=1e-5)
    assert 0.1 < float(tuned.step_size) < 10
    assert np.all(np.asarray(advance(k_run, tuned, target, states, length=50).info.ok))
