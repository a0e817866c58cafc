"""`sample(tune="auto")`: from positions to a step size and a metric at which means and variances are right."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import langevin as lv
from langevin.core.kernel import PerChain
from langevin.diagnostics import ess
from langevin.dynamics.mass import DiagonalMetric
from langevin.samplers import AMALA, GHMC, Guard
from langevin.targets.zoo import Gaussian
from langevin.tune import auto, curvature
from langevin.tune.curvature import RULES, look

MEAN, VARIANCE = np.array([1.0, -2.0, 3.0]), np.array([0.01, 1.0, 16.0])
TARGET, CHAINS, BIAS = Gaussian(MEAN, VARIANCE), 32, 0.05


def starts(scale=1.0, chains=CHAINS):
    random = np.random.default_rng(0)
    return (MEAN + scale * np.sqrt(VARIANCE) * random.standard_normal((chains, 3))).astype(np.float32)


def check(posterior, mean, variance, bias):
    """Mean and variance by z-scores, the variance off by `bias` at most beyond its error."""
    x = posterior.draws
    frame = posterior.summary()
    z = (frame["mean"] - mean) / frame["mcse"]
    assert np.abs(z).max() < 5, z
    square = (x - mean) ** 2 / variance
    error = np.sqrt(square.var((0, 1)) / ess(square, "mean"))
    off = square.mean((0, 1)) - 1
    assert (np.abs(off) < bias + 5 * error).all(), (off, error)


def slow(*args):
    return pytest.param(*args, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("kernel", "thin", "bias"),
    [
        (lv.HMC(n_leapfrog=5), 1, 0.0),
        (lv.SGLD(), 60, BIAS),
        (lv.Underdamped(), 10, BIAS),
        (lv.SGHMC(), 10, BIAS),
        slow(lv.SGNHT(), 60, BIAS),
        slow(lv.PSGLD(), 60, BIAS),
        slow(lv.MALA(), 4, 0.0),
        slow(GHMC(), 4, 0.0),
        slow(lv.MCLMC(), 4, 0.02),
        slow(lv.MAMS(), 1, 0.0),
        slow(lv.NUTS(), 1, 0.0),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, lv.core.kernel.Kernel) else "",
)
def test_a_gaussian_of_unequal_scales(kernel, thin, bias, key):
    with jax.debug_key_reuse(not isinstance(kernel, lv.NUTS)):
        posterior = lv.sample(key, kernel, TARGET, starts(), draws=400, thin=thin, tune="auto")
    check(posterior, MEAN, VARIANCE, bias)


def test_hmc_accepts_at_the_rate_asked_for_and_finds_the_scales(key):
    target = Gaussian(np.zeros(20), np.geomspace(1e-3, 1e3, 20))
    start = np.random.default_rng(0).standard_normal((CHAINS, 20)).astype(np.float32)
    posterior = lv.sample(key, lv.HMC(n_leapfrog=5), target, start, draws=100, tune="auto")
    assert abs(np.mean(posterior.info.acceptance) - 0.8) < 0.1
    ratio = np.asarray(posterior.kernel.metric.variance) / np.geomspace(1e-3, 1e3, 20)
    assert ratio.max() / ratio.min() < 2


@pytest.mark.slow
def test_nuts_accepts_at_the_rate_asked_for(key):
    target = Gaussian.conditioned(20, 1e4)
    start = np.random.default_rng(0).standard_normal((4, 20)).astype(np.float32)
    with jax.debug_key_reuse(False):
        posterior = lv.sample(key, lv.NUTS(), target, start, draws=200, tune="auto")
    assert abs(np.mean(posterior.info.acceptance) - 0.8) < 0.1
    assert isinstance(posterior.kernel, PerChain)


# --- on mini-batches ------------------------------------------------------------------------------------------------


def log_prior(w):
    return -0.5 * jnp.sum(w**2) / 9


def log_likelihood(w, data):
    z = data["x"] @ w
    return data["y"] * z - jnp.logaddexp(0.0, z)


def rows(n=200):
    """Labels of a logistic regression on columns of unequal scale."""
    random = np.random.default_rng(1)
    x = random.standard_normal((n, 2)) * np.array([0.5, 2.0])
    y = random.random(n) < 1 / (1 + np.exp(-x @ np.array([1.0, -0.5])))
    return dict(x=jnp.asarray(x, jnp.float32), y=jnp.asarray(y, jnp.float32))


def truth(data):
    """Mean and variance of the posterior on a grid."""
    at = [np.linspace(-1, 3.2, 161), np.linspace(-1.6, 0.4, 161)]
    grid = np.stack(np.meshgrid(*at, indexing="ij"), -1).reshape(-1, 2)
    z = grid @ np.asarray(data["x"], float).T
    log_p = (np.asarray(data["y"]) * z - np.logaddexp(0, z)).sum(1) - 0.5 * (grid**2).sum(1) / 9
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = p @ grid
    return mean, p @ (grid - mean) ** 2


@pytest.mark.parametrize(
    ("kernel", "thin", "bias"),
    [
        (lv.SGLD(), 150, BIAS),
        slow(lv.SGHMC(), 100, BIAS),
        slow(lv.Underdamped(), 100, BIAS),
        slow(lv.SGNHT(), 150, BIAS),
        slow(lv.PSGLD(), 150, BIAS),
        slow(lv.SMILE(), 40, 0.1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, lv.core.kernel.Kernel) else "",
)
def test_a_logistic_regression_on_mini_batches(kernel, thin, bias, key):
    """The gradient noise is part of the rule: batches of 20 of 200 rows."""
    data = rows()
    mean, variance = truth(data)
    start = np.random.default_rng(2).standard_normal((CHAINS, 2)).astype(np.float32)
    target = lv.Bayes(log_prior, log_likelihood, data, batch=20)
    posterior = lv.sample(key, kernel, target, start, draws=300, warmup=60, thin=thin, tune="auto")
    check(posterior, mean, variance, bias)


# --- the rule ---------------------------------------------------------------------------------------------------------


def test_the_step_size_is_that_of_the_formula(key):
    """λ is 1/min variance where there is no metric and 1 where there is one; no noise on an exact target."""
    plain, _ = curvature(key, lv.SGLD(), TARGET, starts(), rounds=0)
    assert float(plain.step_size) == pytest.approx(2 * BIAS * VARIANCE.min(), rel=0.02)
    scaled, _ = curvature(jax.random.clone(key), lv.Underdamped(), TARGET, starts(), rounds=0)
    np.testing.assert_allclose(scaled.metric.variance, VARIANCE, rtol=1e-3)
    assert float(scaled.step_size) == pytest.approx(2 * np.sqrt(BIAS), rel=0.02)


def test_noise_is_the_variance_of_the_gradient(key):
    noisy = lv.targets.Noisy(TARGET, jnp.array([1.0, 7.0, 2.0]))
    states = lv.core.run.begin_all(key, lv.SGLD(), noisy, starts())
    around = look(jax.random.clone(key), noisy, states, DiagonalMetric(jnp.ones(3)), noisy=True)
    assert around.noise == pytest.approx(49, rel=0.2)


def test_a_metric_that_is_given_is_kept(key):
    given = DiagonalMetric(jnp.array([1.0, 2.0, 3.0]))
    kernel, _ = curvature(key, lv.SGHMC(metric=given), TARGET, starts(), rounds=0)
    np.testing.assert_array_equal(kernel.metric.variance, given.variance)


def test_chains_that_diverge_are_put_back(key):
    """Where the curvature grows with distance the first steps are too long for chains that start in the middle."""
    quartic = lv.Density(lambda x: -0.25 * jnp.sum(x**4))
    start = np.linspace(-0.2, 0.2, 8, dtype=np.float32)[:, None]
    kernel, states = curvature(key, lv.SGLD(), quartic, start, rounds=3, steps=50)
    assert np.isfinite(np.asarray(states.position)).all()
    assert 0 < float(kernel.step_size) < 1


# --- what is around it ------------------------------------------------------------------------------------------------


def test_a_tuned_run_resumes_from_its_store(key, tmp_path):
    """The same call tunes alike, and the draws are those of a run that nothing stopped."""
    how = dict(draws=40, chunk=10, thin=2, tune="auto")
    whole = lv.sample(jax.random.clone(key), lv.SGLD(), TARGET, starts(chains=4), **how)
    stop = lambda progress: progress._replace(stop=progress.done >= 20)
    half = lv.sample(
        jax.random.clone(key), lv.SGLD(), TARGET, starts(chains=4), store=tmp_path / "run", callbacks=(stop,), **how
    )
    assert len(half.draws) == 20
    again = lv.sample(jax.random.clone(key), lv.SGLD(), TARGET, starts(chains=4), store=tmp_path / "run", **how)
    np.testing.assert_array_equal(again.draws.load(), whole.draws)
    assert repr(again.kernel) == repr(whole.kernel)
    assert again.provenance.seed == whole.provenance.seed
    with pytest.raises(lv.core.StoreError, match="holds another run"):
        lv.sample(jax.random.clone(key), lv.SGLD(), TARGET, starts(chains=4), store=tmp_path / "run", draws=40, thin=2)


def test_a_wrapper_is_tuned_inside(key):
    kernel, states = auto(key, Guard(lv.SGLD()), TARGET, starts(chains=4))
    assert isinstance(kernel, Guard)
    assert float(kernel.kernel.step_size) == pytest.approx(2 * BIAS * VARIANCE.min(), rel=0.05)
    assert states.position.shape == (4, 3)


def test_tune_may_be_a_tuner(key):
    double = lambda key, kernel, target, states: (lv.replace(kernel, step_size=0.5), states)
    posterior = lv.sample(key, lv.SGLD(0.1), TARGET, starts(chains=2), draws=2, tune=double)
    assert float(posterior.kernel.step_size) == 0.5


BATCHES = lv.Bayes(log_prior, log_likelihood, rows(), batch=20)


@pytest.mark.parametrize(
    ("kernel", "target", "tune", "sentence"),
    [
        (AMALA(), TARGET, "auto", "there is no tuner for AMALA; set its step size by hand, or take one of NUTS, HMC"),
        (lv.SGLD(lv.schedules.Polynomial()), TARGET, "auto", "step_size is a schedule; give it a number to start from"),
        (lv.SGLD(), TARGET, "yes", "tune is 'yes'; it must be 'auto', a tuner such as langevin.tune.window, or None"),
        (lv.SGLD(), TARGET, 3, "tune is 3; it must be 'auto'"),
        (lv.SMILE(), TARGET, "auto", "SMILE is tuned by the noise of mini-batches, and there is none"),
        (lv.MCLMC(), BATCHES, "auto", "MCLMC is tuned by its energy error, which mini-batches hide"),
        (lv.HMC(), BATCHES, "auto", "HMC needs the exact density"),
        (PerChain(lv.SGLD(jnp.ones(4))), TARGET, "auto", "PerChain is not tuned as a whole"),
    ],
)
def test_what_cannot_be_tuned_is_refused_in_one_sentence(kernel, target, tune, sentence, key):
    with pytest.raises((TypeError, ValueError), match=sentence):
        lv.sample(key, kernel, target, starts(chains=4), draws=1, tune=tune)


def test_every_rule_is_in_the_table():
    from langevin.tune.auto import TUNERS

    assert set(RULES) <= set(TUNERS)
