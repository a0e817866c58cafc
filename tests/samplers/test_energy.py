"""Tuning motion at constant speed: the energy asked for is met from afar, L is what it should be, NaN is survived.

Phases of at most 500 steps share one compiled program across these tests.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from langevin.core.advance import _advance, advance
from langevin.core.kernel import PerChain, replace
from langevin.core.moments import effective
from langevin.core.run import begin_all
from langevin.core.target import Density
from langevin.dynamics.mass import DiagonalMetric
from langevin.samplers.hmc import HMC
from langevin.samplers.mams import MAMS
from langevin.samplers.mclmc import MCLMC
from langevin.targets.zoo import Gaussian
from langevin.tune.mclmc import Seeking, Sought, Wanted, tune_mclmc
from langevin.tune.trajectory import Spread, forgetting, include, pace, tune_mams

D, CHAINS = 50, 16
TARGET = Gaussian.conditioned(D, 25.0)
SIZE = float(np.sqrt(np.asarray(TARGET.variance).sum()))


def begin(key, kernel, target=TARGET, chains=CHAINS):
    k_start, k_init, k_tune, k_run = jax.random.split(key, 4)
    return begin_all(k_init, kernel, target, target.exact(k_start, chains)), k_tune, k_run


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


# --- the rule itself, number by number ------------------------------------------------------------------------------


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


# --- trajectories ---------------------------------------------------------------------------------------------------


def test_adjusted_meets_the_rate_asked_for(key, monkeypatch):
    """The rate, and L: 0.3 of a path of √(Σ Var) a draw, were an effective draw two draws."""
    monkeypatch.setattr("langevin.tune.trajectory.forgetting", lambda draws: np.full(len(draws), 2.0))
    kernel = MAMS(1.0, 3.0)
    states, k_tune, k_run = begin(key, kernel)
    tuned, states = tune_mams(k_tune, kernel, TARGET, states, steps=1000)
    each = np.asarray(advance(k_run, tuned, TARGET, states, length=300).info.acceptance).mean(1)
    # as in test_tune: the rate is promised along the path of dual averaging
    assert abs(each.mean() - 0.9) < 0.07 + 5 * each.std() / np.sqrt(CHAINS)
    # n = ⌈2 x L/ε⌉ steps are L and, on the average, half a step
    path = SIZE + 0.5 * float(tuned.step_size)
    assert abs(float(tuned.length) / (0.3 * 2 * path) - 1) < 0.15


def test_variances_on_the_way_are_those_of_the_positions(key):
    """A kernel that stands at given places: their variance, far from zero, to float32."""
    x = 10 + jax.random.normal(key, (40, 3))
    spread = Spread(jnp.zeros(()), jnp.zeros(3), jnp.zeros(3))
    for place in x:
        spread = include(spread, place)
    np.testing.assert_allclose(spread.square / 39, np.asarray(x).var(0, ddof=1), rtol=1e-4)
    assert float(spread.n) == 40


def test_forgetting_leaves_out_what_stands_still():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 400, 3))
    x[:, :, 1] = 1.0
    x[1] = 2.0
    steps = forgetting(x)
    assert abs(steps[0] - 1) < 0.3
    assert np.isnan(steps[1])


def test_forgetting_of_ar1():
    """x' = φ x + noise: (1 + φ)/(1 − φ) draws for each effective one, of a chain by itself."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2, 2000, 40))
    for t in range(1, 2000):
        x[:, t] = 0.6 * x[:, t - 1] + 0.8 * x[:, t]
    np.testing.assert_allclose(forgetting(x), 4.0, rtol=0.1)


@pytest.mark.parametrize(("steps", "kept", "thin"), [(3, 3, 1), (500, 500, 1), (501, 251, 2), (5000, 500, 10)])
def test_at_most_so_many_positions_are_kept(steps, kept, thin):
    assert pace(steps) == (kept, thin)


def test_one_program_for_all_phases(key):
    kernel = MCLMC(1.0, D**0.5)
    states, k_tune, _ = begin(key, kernel)
    before = _advance._cache_size()
    for numbers, k in zip((dict(), dict(variance=(0.5, 0.1), trust=2.0)), jax.random.split(k_tune), strict=True):
        tune_mclmc(k, kernel, TARGET, states, steps=1500, **numbers)
    assert _advance._cache_size() <= before + 1


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (dict(kernel=HMC(1.0)), TypeError, "has no field 'length'"),
        (dict(kernel=MCLMC(lambda t: 0.1, 1.0)), TypeError, "step_size is a schedule"),
        (dict(steps=0), ValueError, "steps is 0"),
        (dict(variance=-1.0), ValueError, "variance is -1.0"),
        (dict(variance=(0.5, 0.1, 0.1)), ValueError, "two such: at first, at last"),
        (dict(share=(0.5, 0.5, 0.5)), ValueError, "sum 1 or less"),
        (dict(kernel=MAMS(1.0, 1.0)), TypeError, "carry no velocity"),
    ],
)
def test_bad_input_in_words(change, error, words, key):
    kernel = change.pop("kernel", MCLMC(1.0, 1.0))
    states, k_tune, _ = begin(key, kernel, chains=2)
    with pytest.raises(error, match=words):
        tune_mclmc(k_tune, kernel, TARGET, states, **change)


@pytest.mark.parametrize(("change", "words"), [(dict(acceptance=1.5), "acceptance is 1.5"), (dict(steps=5), "too few")])
def test_bad_input_of_adjusted(change, words, key):
    states, k_tune, _ = begin(key, MAMS(1.0, 1.0), chains=2)
    with pytest.raises(ValueError, match=words):
        tune_mams(k_tune, MAMS(1.0, 1.0), TARGET, states, **change)


# --- against BlackJAX -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_bias_is_that_of_blackjax(key):
    """Σ x²/Var of chains from exact draws, ε large: ours and BlackJAX's are off by the same, and clearly so."""
    blackjax = pytest.importorskip("blackjax")
    step, length, chains, draws = 12.0, 10.0, 500, 60
    k_start, k_init, k_run, k_theirs, k_begin = jax.random.split(key, 5)
    start = TARGET.exact(k_start, chains)
    kernel = MCLMC(step, length)
    ours = advance(k_run, kernel, TARGET, begin_all(k_init, kernel, TARGET, start), length=draws).kept

    with jax.debug_key_reuse(False):
        peer = blackjax.mclmc(TARGET.log_density, L=length, step_size=step)

        @jax.jit
        @jax.vmap
        def chain(k_begin, key, position):
            one = lambda state, k: (lambda new: (new, new.position))(peer.step(k, state)[0])
            return jax.lax.scan(one, peer.init(position, k_begin), jax.random.split(key, draws))[1]

        theirs = chain(jax.random.split(k_begin, chains), jax.random.split(k_theirs, chains), start)

    def bias(x):
        """Mean and its standard error of Σ (x²/Var − 1) over independent chains, after they have settled."""
        each = (np.asarray(x, np.float64)[:, draws // 2 :] ** 2 / np.asarray(TARGET.variance) - 1).sum(2).mean(1)
        return each.mean(), each.std(ddof=1) / np.sqrt(chains)

    (a, sa), (b, sb) = bias(ours), bias(theirs)
    assert min(abs(a) / sa, abs(b) / sb) > 10
    assert abs(a - b) / np.hypot(sa, sb) < 5
