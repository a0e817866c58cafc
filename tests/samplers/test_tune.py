"""Tuning: acceptance is met, metrics are found, ascents arrive and stop early."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from threadpoolctl import threadpool_info

from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.kernel import PerChain
from langevin.core.posterior import sample
from langevin.core.run import run
from langevin.core.schedule import Linear
from langevin.core.target import Density
from langevin.dynamics.mass import DenseMetric, DiagonalMetric
from langevin.samplers.blackjax import NUTS
from langevin.samplers.hmc import HMC
from langevin.samplers.mala import MALA
from langevin.samplers.optimize import Adam, Optimize
from langevin.targets.zoo import Gaussian
from langevin.tune.dual_averaging import dual_averaging
from langevin.tune.positions import tuner
from langevin.tune.warm_start import warm_start
from langevin.tune.window import _adapt, _kept, lengths, window

CHAINS = 64


def begin(key, kernel, target, d):
    k_start, k_init, k_tune, k_run = jax.random.split(key, 4)
    start = 0.1 * jax.random.normal(k_start, (CHAINS, d))
    return begin_all(k_init, kernel, target, start), k_tune, k_run


@pytest.mark.parametrize(("kernel", "rate"), [(MALA(0.5), 0.57), (HMC(1.0, n_leapfrog=5), 0.8)])
def test_dual_averaging_meets_the_rate_asked_for(kernel, rate, key):
    target = Gaussian.conditioned(10, 10.0)
    states, k_tune, k_run = begin(key, kernel, target, 10)
    tuned, states = dual_averaging(k_tune, kernel, target, states, acceptance=rate, steps=400)
    run = advance(k_run, tuned, target, states, length=200)
    each = np.asarray(run.info.acceptance).mean(1)
    # what dual averaging promises is the rate along its own path, a little off that of its mean step
    assert abs(each.mean() - rate) < 0.07 + 5 * each.std() / np.sqrt(CHAINS)


def test_dual_averaging_per_chain(key):
    target = Gaussian.conditioned(3, 4.0)
    states, k_tune, k_run = begin(key, MALA(0.5), target, 3)
    tuned, states = dual_averaging(k_tune, MALA(0.5), target, states, acceptance=0.6, steps=300, per_chain=True)
    assert isinstance(tuned, PerChain)
    assert tuned.kernel.step_size.shape == (CHAINS,)
    assert np.unique(np.asarray(tuned.kernel.step_size)).size > 1
    assert np.all(np.asarray(advance(k_run, tuned, target, states, length=20).info.ok))


@pytest.mark.parametrize("dense", [False, True])
def test_window_finds_the_metric(dense, key):
    """On a Gaussian of condition number 10⁴ the tuned metric is its variance (covariance) by z-score."""
    target = Gaussian.conditioned(4, 1e4, **(dict(shape="ar1", rho=0.5) if dense else {}))
    kernel = HMC(0.01, n_leapfrog=12)
    states, k_tune, k_run = begin(key, kernel, target, 4)
    tuned, states = window(k_tune, kernel, target, states, steps=600, dense=dense)
    assert isinstance(tuned.metric, DenseMetric if dense else DiagonalMetric)
    found = np.diag(np.asarray(tuned.metric.covariance)) if dense else np.asarray(tuned.metric.variance)
    # 64 chains are independent, so a variance from them alone has a relative error of √(2/64) at the most
    assert np.all(np.abs(found / np.asarray(target.variance) - 1) < 5 * np.sqrt(2 / CHAINS) * 0.5)
    run = advance(k_run, tuned, target, states, length=100)
    assert abs(float(np.mean(run.info.acceptance)) - 0.8) < 0.15


@pytest.mark.slow
def test_window_of_nuts_is_blackjax_own(key):
    pytest.importorskip("blackjax")
    target = Gaussian.conditioned(3, 100.0)
    with jax.debug_key_reuse(False):
        kernel = NUTS(0.1, max_doublings=5)
        k_start, k_init, k_tune, k_run = jax.random.split(key, 4)
        states = begin_all(k_init, kernel, target, jax.random.normal(k_start, (4, 3)))
        tuned, states = window(k_tune, kernel, target, states, steps=300)
        run = advance(k_run, tuned, target, states, length=300)
    x = np.asarray(run.kept).reshape(-1, 3)
    assert np.all(np.abs(x.var(0) / np.asarray(target.variance) - 1) < 0.5)
    assert np.asarray(tuned.kernel.inverse_mass).shape == (4, 3)


@pytest.mark.parametrize("steps", [60, 300, 1000])
def test_windows_fill_the_warm_up(steps):
    assert sum(lengths(steps)) == steps
    assert lengths(1000) == [75, 25, 50, 100, 200, 500, 50]


def hill(x):
    """A concave hill with its top at (1, −2)."""
    return -jnp.sum(jnp.cosh(x - jnp.array([1.0, -2.0])))


ADAM = optax.adam(optax.cosine_decay_schedule(0.1, 1000))


def test_ascend_finds_the_mode(key):
    end = run(key, Optimize(ADAM), Density(hill), jnp.zeros((3, 2)), draws=1000, chunk=1000).states
    np.testing.assert_allclose(end.position, np.tile([1.0, -2.0], (3, 1)), atol=1e-3)


def passed(x):
    """A score that is best on the way, at x = 0.5, and falls after."""
    return -((x[0] - 0.5) ** 2)


SGD = optax.sgd(0.003)


def test_warm_start_keeps_the_best_and_stops_early(key):
    steps = []
    watch = lambda progress: steps.append(progress.done) or progress
    found = warm_start(
        key,
        Density(hill),
        jnp.zeros((2, 2)),
        steps=5000,
        optimizer=SGD,
        score=passed,
        patience=3,
        chunk=10,
        callbacks=(watch,),
    )
    assert np.all(np.abs(np.asarray(found)[:, 0] - 0.5) < 0.03)
    assert steps[-1] < 5000


def test_temperature_schedules_of_optax(key):
    """An Optax schedule cools a chain from T = 1 to 0: it ends in the mode."""
    from langevin.samplers.sgld import SGLD

    cool = optax.linear_schedule(1.0, 0.0, 800)
    posterior = sample(key, SGLD(0.05, temperature=cool), Density(hill), jnp.zeros((16, 2)), draws=1000)
    np.testing.assert_allclose(posterior.draws[:, -1], np.tile([1.0, -2.0], (16, 1)), atol=1e-3)
    assert posterior.draws[:, :200].std() > 0.3


@pytest.mark.parametrize("given", ["positions", "states"])
def test_tuners_take_positions_or_states(given, key):
    """From positions the kernel's own states are made first; a mistake says what is wrong, not what JAX met."""
    kernel, target, positions = HMC(0.2), Gaussian(np.zeros(2), np.ones(2)), jnp.zeros((4, 2))
    k_begin, k_tune = jax.random.split(key)
    start = positions if given == "positions" else begin_all(k_begin, kernel, target, positions)
    tuned, states = dual_averaging(k_tune, kernel, target, start, steps=20)
    assert states.position.shape == (4, 2)
    assert float(tuned.step_size) > 0
    with pytest.raises(TypeError, match=r"the target is .*lambda"):
        dual_averaging(key, kernel, lambda x: x, positions)


@pytest.mark.parametrize("rate", [1e-2, Linear(1e-2, 1e-3, 30)], ids=["number", "schedule"])
def test_adam_as_a_record_is_adam_of_optax(rate, key):
    ends = []
    for optimizer in (Adam(rate), optax.adam(rate)):
        start = begin_all(jax.random.clone(key), Optimize(optimizer), Density(hill), jnp.zeros((2, 2)))
        ends.append(
            advance(jax.random.clone(key), Optimize(optimizer), Density(hill), start, length=50).states.position
        )
    np.testing.assert_allclose(*ends, rtol=1e-6)
    assert np.all(np.abs(ends[0]) > 0.1)


def test_tuners_decompose_matrices_with_one_thread(key):
    """A threaded LAPACK waits for a busy neighbour's core: a QR decomposition took 100 times as long."""
    threads = lambda: [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
    seen, before = [], threads()

    @tuner
    def watched(key, kernel, target, states):
        seen.extend(threads())
        return kernel, states

    watched(key, HMC(0.2), Gaussian(np.zeros(2), np.ones(2)), jnp.zeros((4, 2)))
    assert seen
    assert set(seen) == {1}
    assert threads() == before


def test_nuts_is_tuned_again_by_the_same_program(key):
    """Another seed and step size do not compile the adaptation again."""
    target, start = Density(lambda x: -0.5 * jnp.sum(x**2)), jnp.zeros((2, 3))
    k_first, k_again = jax.random.split(key)
    with jax.debug_key_reuse(False):  # BlackJAX uses a key twice
        window(k_first, NUTS(0.1), target, start, steps=20)
        before = _adapt._cache_size()
        window(k_again, NUTS(0.2), target, start, steps=20)
    assert _adapt._cache_size() == before


def test_a_chain_whose_warm_up_failed_is_replaced():
    place, step, mass = jnp.arange(4.0)[:, None], jnp.array([0.1, 0.0, 0.3, 0.4]), jnp.ones((4, 1))
    with pytest.warns(UserWarning, match="the warm-up failed in 2 of 4 chains"):
        place, step, mass = _kept(place, step, mass.at[3].set(jnp.nan))
    np.testing.assert_allclose(place[:, 0], [0, 0, 2, 2])
    np.testing.assert_allclose(step, [0.1, 0.1, 0.3, 0.3])
    assert np.isfinite(mass).all()
    with pytest.raises(ValueError, match="the warm-up failed in all 4 chains"):
        _kept(place, 0 * step, mass)
