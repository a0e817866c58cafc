"""STANLEY: known stationary distributions, and its uses."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from langevin_lab.experiments import stanley_law
from quick import first
from stanley_laws import coupled, normal, quiet

from langevin.baselines.noise_scaled import NoiseScaled
from langevin.core import noise
from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.target import Density
from langevin.samplers.amala import AMALA
from langevin.samplers.mala import MALA
from langevin.samplers.stanley import Stanley
from langevin.samplers.tmala import TMALA
from langevin.targets.zoo import Gaussian
from langevin.tune.dual_averaging import dual_averaging
from langevin.tune.window import window


def quartic(x):
    return -0.25 * jnp.sum(x**4)


def drawn(key, kernel, target, start, steps, thin=25):
    """Draws (chain, draw, …) of the second half of 2·steps and their weights."""
    k_init, k_run = jax.random.split(key)
    states = begin_all(k_init, kernel, target, start)
    run = advance(k_run, kernel, target, states, length=2 * steps // thin, thin=thin, layout="vmap")
    assert np.all(run.info.ok)
    half = steps // thin
    x, w = np.asarray(run.kept, np.float64)[:, half:], np.exp(np.asarray(run.info.log_weight, np.float64)[:, half:])
    return stanley_law.Draws(x, w, float(np.mean(run.info.acceptance)))


# --- known laws (notes §1.8) ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "want"),
    [
        (partial(Stanley, correction="none"), 1.786),
        (Stanley, 1.0),
        pytest.param(partial(Stanley, correction="weights"), 1.0, marks=pytest.mark.slow),
        (partial(Stanley, correction="hk2", form="smooth"), 1.0),
        pytest.param(partial(Stanley, correction="pec", form="smooth"), 1.0, marks=pytest.mark.slow),
        pytest.param(partial(Stanley, correction="exact", form="smooth"), 1.0, marks=pytest.mark.slow),
        (partial(NoiseScaled, per="chain"), 0.587),
        pytest.param(partial(NoiseScaled, per="chain", variant="toy"), 1.018, marks=pytest.mark.slow),
    ],
)
def test_second_moment_on_the_normal(make, want, key):
    """τ = ½: e^f/γ as published, e^f corrected; 0.02 is allowed for the bias of the step, and 5 standard errors."""
    kernel = quiet(partial(make, 0.01, threshold=0.5))
    k_start, k_run = jax.random.split(key)
    draws = drawn(k_run, kernel, Density(normal), jax.random.normal(k_start, (4096, 1)), 2500)
    mean, error = draws.mean(draws.x[..., 0] ** 2)
    assert error < 0.012
    assert abs(mean - want) < 0.02 + 5 * error
    if kernel.law().kind == "wrong":
        assert stanley_law.predicted(kernel)[0] == pytest.approx(want, abs=1e-3), "by quadrature of the law it names"


@pytest.mark.parametrize(
    ("correction", "low", "high"), first(1, [("hk2", 0, 0.04), ("none", 0.7, 1.4), ("metropolis", 0, 0.04)])
)
def test_covariance_with_one_step_a_coordinate(correction, low, high, key):
    """The end-point noise carries Γ for a diagonal D; nothing corrected misses by all of the covariance."""
    kernel = quiet(partial(Stanley, 0.02, threshold=0.4, form="smooth", per="coordinate", correction=correction))
    target = Gaussian(np.zeros(2), stanley_law.COVARIANCE)
    k_start, k_run = jax.random.split(key)
    draws = drawn(k_run, kernel, target, target.exact(k_start, 8192), 2000)
    found, error = draws.mean(draws.x[..., :, None] * draws.x[..., None, :])
    size = np.linalg.norm(stanley_law.COVARIANCE)
    assert np.linalg.norm(error) / size < 0.03
    assert low <= np.linalg.norm(found - stanley_law.COVARIANCE) / size <= high


@pytest.mark.parametrize(("correction", "want"), first(2, [("metropolis", 1.0), ("none", None), ("weights", 1.0)]))
def test_a_model_trained_with_chains_takes_their_bias_in(correction, want, key):
    """The fixed point of e^{−ax²/2} on N(0, 1): 1.955 as published, 1 corrected. Standard error about 0.01."""
    kernel = quiet(partial(Stanley, 0.01, threshold=0.3, correction=correction))
    want = stanley_law.fixed_point(0.3) if want is None else want
    assert correction != "none" or want == pytest.approx(1.955, abs=1e-3)
    path = stanley_law.learnt(key, kernel, 400, 4096)
    assert path[200:].mean() == pytest.approx(want, abs=0.05)


@pytest.mark.parametrize(
    ("per", "correction", "want"),
    [
        ("pixel", "none", 3),
        ("pixel", "metropolis", None),
        pytest.param("chain", "none", 6, marks=pytest.mark.slow),
    ],
)
def test_a_step_shared_by_n_coordinates(per, correction, want, key):
    """E|x|²/d on N(0, I₆) as 2 pixels of 3 channels: (n + 1)/n for n that share a step, as τ → 0."""
    threshold = 0.5
    kernel = quiet(partial(Stanley, 0.02, threshold=threshold, per=per, correction=correction))
    k_start, k_run = jax.random.split(key)
    draws = drawn(k_run, kernel, Density(normal), jax.random.normal(k_start, (2048, 3, 2, 1)), 1500)
    mean, error = draws.mean((draws.x**2).mean((-1, -2, -3)))
    want = 1.0 if want is None else stanley_law.radial(want, threshold)
    assert abs(mean - want) < 0.015 + 5 * error
    assert error < 0.01


def test_a_step_held_long_is_plain_langevin_and_one_held_shortly_is_not(key):
    """The printed loop, τ = ½: e^f/γ while K steps are short, e^f (bias O(h)) where they are long."""
    ends = {}
    for every in (4, 400):
        kernel = quiet(partial(Stanley, 0.04, threshold=0.5, every=every, correction="none"))
        start = jax.random.normal(noise.key(1), (4096, 1))
        draws = drawn(jax.random.clone(key), kernel, Density(normal), start, 1200, thin=400)
        ends[every] = draws.mean(draws.x[..., 0] ** 2)[0]
    assert 1.5 < ends[4] < 1.85
    assert 0.95 < ends[400] < 1.1


def test_a_held_step_is_found_anew_at_its_turn(key):
    kernel = quiet(partial(Stanley, 0.05, threshold=0.5, every=3, correction="none"))
    k_init, *keys = jax.random.split(key, 9)
    state, used, there = kernel.init(k_init, jnp.array([1.0, -2.0]), Density(normal)), [], []
    for k in keys:
        used.append(float(state.memory[1]))
        there.append(float(jnp.linalg.norm(state.position)))
        state, info = kernel.step(k, state, Density(normal))
        assert int(info.n_grad) == 1
    want = [0.5 / max(0.5, there[3 * (i // 3)]) for i in range(8)]
    np.testing.assert_allclose(used, want, rtol=1e-5)


# --- uses -------------------------------------------------------------------------------------------------------------


def test_weights_are_those_of_the_draw_they_come_with(key):
    kernel = Stanley(0.05, threshold=0.5, correction="weights")
    k_init, k_run = jax.random.split(key)
    states = begin_all(k_init, kernel, Density(coupled), jnp.ones((4, 3)))
    run = advance(k_run, kernel, Density(coupled), states, length=6, thin=3, layout="vmap")
    size = np.linalg.norm(jax.vmap(jax.vmap(jax.grad(coupled)))(run.kept), axis=-1)
    np.testing.assert_allclose(run.info.log_weight, np.log(0.5 / np.maximum(0.5, size)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "kernel", first(1, [Stanley(threshold=2.0), AMALA(bound=2.0), TMALA(bound=2.0)]), ids=("stanley", "amala", "tmala")
)
def test_dual_averaging_finds_the_step_size(kernel, key):
    target = Gaussian(np.zeros(4), np.array([0.25, 0.5, 1.0, 2.0]))
    k_start, k_init, k_tune, k_run = jax.random.split(key, 4)
    states = begin_all(k_init, kernel, target, target.exact(k_start, 64))
    tuned, states = dual_averaging(k_tune, kernel, target, states, acceptance=0.574)
    run = advance(k_run, tuned, target, states, length=100, layout="vmap")
    assert float(np.mean(run.info.acceptance)) == pytest.approx(0.574, abs=0.06)


@pytest.mark.slow
def test_the_window_finds_tmalas_covariance(key):
    target = Gaussian(np.zeros(3), np.array([0.04, 1.0, 9.0]))
    k_start, k_init, k_tune = jax.random.split(key, 3)
    states = begin_all(k_init, TMALA(0.01), target, target.exact(k_start, 128))
    tuned, _ = window(k_tune, TMALA(0.01), target, states, acceptance=0.574)
    np.testing.assert_allclose(tuned.metric.variance, [0.04, 1.0, 9.0], rtol=0.25)


@pytest.mark.slow
def test_a_cut_drift_comes_back_from_where_mala_does_not(key):
    """From |x| = 20 on e^{−x⁴/4}, whose gradient is 8000 there."""
    k_init, k_run = jax.random.split(key)
    ends = {}
    for kernel in (MALA(0.1), TMALA(0.1, bound=5.0), Stanley(0.1, threshold=5.0)):
        states = begin_all(jax.random.clone(k_init), kernel, Density(quartic), jnp.full((64, 1), 20.0))
        run = advance(jax.random.clone(k_run), kernel, Density(quartic), states, length=4, thin=100, layout="vmap")
        ends[type(kernel).__name__] = float(np.abs(run.kept[:, -1]).max())
    assert ends["MALA"] == 20.0
    assert ends["TMALA"] < 3.5
