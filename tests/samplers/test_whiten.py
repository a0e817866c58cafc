"""The tuner of SMILE: scale, noise and step size."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from langevin_lab.experiments import smile_gaussian as gaussians
from noisy_gaussian import D, R, dense, modelled, orthonormal, together

from langevin.core import noise
from langevin.core.advance import advance
from langevin.core.begin import begin_all
from langevin.core.kernel import PerChain, replace
from langevin.diagnostics.virial_temperature import virial_temperature
from langevin.samplers.smile import SMILE
from langevin.targets.bayes import Bayes
from langevin.targets.noisy import Noisy
from langevin.targets.zoo import Gaussian
from langevin.tune.whiten import whiten

SMALL, MEAN = 40, 11.0


SPIKES = np.array([1.0, 0.6, 0.4])


def spiky():
    """Noise of mean 11, the strongest of three directions about eight times that."""
    W = orthonormal(SMALL, 3, seed=1)
    base = MEAN / (1 + 12 * SPIKES.sum() / SMALL)
    f32 = lambda u: jnp.asarray(u, jnp.float32)
    exact = Gaussian(np.zeros(SMALL), np.ones(SMALL))
    V = base * (np.eye(SMALL) + 12 * W @ np.diag(SPIKES) @ W.T)
    sd = np.full(SMALL, np.sqrt(base))
    return Noisy(exact, f32(sd), f32(W), f32(np.sqrt(12 * base * SPIKES))), V, W


def tuned_on(key, target, kernel=None, *, rank=8, chains=32, steps=1500, d=SMALL, mean=MEAN, **how):
    k_start, k_init, k_tune = jax.random.split(key, 3)
    kernel = SMILE(0.1) if kernel is None else kernel
    states = begin_all(k_init, kernel, target, jax.random.normal(k_start, (chains, d)))
    return whiten(k_tune, kernel, target, states, steps=steps, rank=rank, share=1 / mean, prior=0.0, **how)


@together
def test_one_fixed_point_from_afar(key):
    """ε from 10⁻⁴ and from 10⁻¹ is the same within 20 %, by the median over chains."""
    found = []
    for first, k in zip((1e-4, 1e-1), jax.random.split(key), strict=True):
        log = []
        tuned_on(k, gaussians.seen_through(gaussians.anisotropic()), SMILE(first), d=D, mean=R, watch=log.append)
        assert all(np.all(told["reset_rate"] < 0.02) for told in log)
        found.append(np.median(log[-1]["step_size"]))
    assert max(found) / min(found) < 1.2


def total_noise(kernel, i, V):
    """SᵀVS + Cov c over v of a chain's kernel, for the true V."""
    one = jax.tree.map(lambda u: u[i], kernel)
    S, U = dense(one.metric, len(V)), np.asarray(one.metric.vectors, np.float64)
    v = max(float(one.level), 2 * (len(V) - 1) / (float(one.step_size) * float(one.length)))
    missing = lambda has: np.maximum(v - np.asarray(has, np.float64), 0.0)
    return (S.T @ V @ S + modelled(missing(one.gradient_noise), missing(one.spikes), U)) / v


@pytest.fixture(scope="module")
def followed():
    """A target with spikes, V, W, and the kernel and states of `whiten` with rank enough."""
    target, V, W = spiky()
    return target, V, W, *tuned_on(noise.key(11, impl="hash"), target, rank=8, chains=64, steps=2500)


@pytest.mark.xdist_group("spiky")
def test_spikes_that_are_followed_have_the_temperature_of_the_rest(followed, key):
    """T along every spike is 1 ± 0.1, four standard errors."""
    target, _, W, tuned, states = followed
    mean, error = gaussians.averaged(gaussians.temperatures(key, tuned, target, states, 8000, W))
    assert error.max() < 0.025
    assert np.abs(mean - 1).max() < 0.1


@pytest.mark.xdist_group("spiky")
def test_noise_found_and_filled_up_is_isotropic(followed):
    """The true SᵀVS and c of a chain's kernel together are v on the average over what it follows, and over the rest.

    Within 5 %: a round has 250 batches, and 1/λ of an estimated λ is too large by 2/250.
    """
    _, V, _, tuned, _ = followed
    each = []
    for i in range(64):
        total, U = total_noise(tuned.kernel, i, V), np.asarray(tuned.kernel.metric.vectors[i], np.float64)
        on = np.trace(U.T @ total @ U)
        each.append([on / 8, (np.trace(total) - on) / (SMALL - 8)])
    mean, error = gaussians.averaged(np.array(each))
    assert error.max() < 0.005
    assert np.abs(mean - 1).max() < 0.05


@pytest.mark.xdist_group("spiky")
def test_temperature_is_one_along_what_is_followed_and_more_where_noise_is_left_as_it_is(followed, key):
    """By the virial theorem, which is not told the law. Directions are sorted by noise found from 250 batches, 9 % in
    error, so each is within 20 %, and their mean within four standard errors or 4 %."""
    target, _, _, tuned, states = followed
    k_right, k_wrong = jax.random.split(key)
    found = virial_temperature(k_right, tuned, target, states, draws=150, thin=10)
    assert found.stderr.max() < 0.1
    assert np.abs(found.temperature - 1).max() < 0.2
    assert abs(found.temperature.mean() - 1) < 0.04 + 4 * np.sqrt(np.mean(found.stderr**2) / 8)
    bare = replace(tuned.kernel, gradient_noise=0 * tuned.kernel.gradient_noise, spikes=0 * tuned.kernel.spikes)
    left = PerChain(replace(bare, metric=replace(bare.metric, stretch=jnp.ones_like(bare.metric.stretch))))
    assert virial_temperature(k_wrong, left, target, states, draws=100, thin=10).temperature.max() > 2


def test_the_virial_temperature_needs_a_tuned_kernel(key):
    with pytest.raises(TypeError, match="`fisher` tuned: a LowRankMetric"):
        virial_temperature(key, SMILE(0.1), None, None)


@pytest.mark.slow
@pytest.mark.xdist_group("spiky")
def test_spikes_that_are_not_followed_are_hot(key):
    """Rank 1 of three: T is above 2 along the hottest."""
    target, V, W = spiky()
    k_tune, k_run = jax.random.split(key)
    tuned, states = tuned_on(k_tune, target, rank=1)
    assert gaussians.temperatures(k_run, tuned, target, states, 2000, W).mean(0).max() > 2
    assert np.linalg.eigvalsh(total_noise(tuned.kernel, 0, V))[-1] > 1.5


def log_prior(position):
    return -0.5 * jnp.sum(position["w"] ** 2) - 2.0 * jnp.sum(position["idle"] ** 2)


def log_likelihood(position, data):
    return -0.5 * (data["y"] - data["x"] @ position["w"]) ** 2


def regression(n, d):
    """Linear regression with unit noise; its data, and the mean of its negative log likelihood in the posterior."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((n, d)) * np.linspace(0.3, 2.0, d)
    y = x @ rng.standard_normal(d) + rng.standard_normal(n)
    covariance = np.linalg.inv(x.T @ x + np.eye(d))
    left = y - x @ covariance @ x.T @ y
    truth = 0.5 * (left @ left + np.trace(x @ covariance @ x.T))
    return {"x": jnp.asarray(x, jnp.float32), "y": jnp.asarray(y, jnp.float32)}, truth


@pytest.fixture(scope="module")
def posterior():
    """Regression by a tenth of the data a step: the kernel of `whiten`, a run of it, data and the mean of the loss."""
    d, chains = 10, 32
    data, truth = regression(400, d)
    target = Bayes(log_prior, log_likelihood, data, batch=40)
    k_init, k_tune, k_run = jax.random.split(noise.key(12, impl="hash"), 3)
    kernel = SMILE(1e-3)
    states = begin_all(k_init, kernel, target, {"w": jnp.zeros((chains, d)), "idle": jnp.zeros((chains, 2))})
    tuned, states = whiten(k_tune, kernel, target, states, steps=1500, rank=4)
    assert states.memory == ()
    return tuned, advance(k_run, tuned, target, states, length=400, thin=10), data, truth


@pytest.mark.slow
def test_damping_is_a_stiffer_prior_that_goes_as_far(key):
    """κ times the prior's precision, and L longer by √κ: in units of the prior's scale as long as without."""
    d = 10
    target = Bayes(log_prior, log_likelihood, regression(100, d)[0], batch=40)
    k_init, k_tune = jax.random.split(key)
    states = begin_all(k_init, SMILE(1e-3), target, {"w": jnp.zeros((4, d)), "idle": jnp.zeros((4, 2))})
    how = dict(steps=40, rounds=2, rank=4)
    go = lambda **more: whiten(jax.random.clone(k_tune), SMILE(1e-3), target, states, **how, **more)
    damped, _ = go(damping=9.0)
    plain, _ = go(prior={"w": 9.0, "idle": 36.0}, length=3 * np.sqrt(d + 2))
    np.testing.assert_allclose(damped.kernel.length, plain.kernel.length, rtol=1e-6)
    np.testing.assert_allclose(damped.kernel.metric.scale["idle"], plain.kernel.metric.scale["idle"], rtol=1e-5)
    np.testing.assert_allclose(damped.kernel.step_size, plain.kernel.step_size, rtol=1e-3)
    with pytest.raises(ValueError, match="damping is 0"):
        go(damping=0)


def stderr(each):
    return np.std(each, ddof=1) / np.sqrt(len(each))


@pytest.mark.xdist_group("posterior")
def test_a_posterior_is_stationary_once_tuned(posterior):
    """The likelihood of all data does not drift; its mean is within 0.1 of the truth: 2 % of what T adds, d/2."""
    tuned, out, data, truth = posterior
    assert isinstance(tuned, PerChain)
    assert tuned.kernel.step_size.shape == (32,)
    assert out.states.memory == ()
    assert np.all(np.asarray(out.info.acceptance) == 1)
    w = np.asarray(out.kept["w"], np.float64)
    loss = 0.5 * np.sum((np.asarray(data["y"]) - w @ np.asarray(data["x"]).T) ** 2, axis=2)
    drift = loss[:, 200:].mean(1) - loss[:, :200].mean(1)
    assert abs(drift.mean()) < 5 * stderr(drift)
    each = loss.mean(1)
    assert stderr(each) < 0.04
    assert abs(each.mean() - truth) < 0.1


@pytest.mark.xdist_group("posterior")
def test_weights_the_data_do_not_know_keep_their_prior(posterior):
    _, out, _, _ = posterior
    each = np.mean(np.asarray(out.kept["idle"], np.float64) ** 2, axis=(1, 2))
    assert abs(each.mean() - 0.25) < 5 * stderr(each)


@pytest.mark.xdist_group("posterior")
def test_share_and_prior_are_read_off_the_target(posterior):
    """D is the scale of the prior for weights the data do not know."""
    kernel = posterior[0].kernel
    np.testing.assert_allclose(kernel.metric.scale["idle"], 0.5, rtol=1e-5)
    np.testing.assert_allclose(kernel.level, 10.0, rtol=1e-6)
    np.testing.assert_allclose(kernel.length, np.sqrt(12), rtol=1e-6)
