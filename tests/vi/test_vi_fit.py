"""Fits: known optima are met, and what is fitted is a posterior like any other."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from vi.checks import z_of

import langevin as lv
from langevin import vi
from langevin.core.begin import begin_all
from langevin.core.kernel import PerChain, innermost
from langevin.core.record import replace

COVARIANCE = np.array([[1.0, 0.6, 0.0], [0.6, 0.8, 0.3], [0.0, 0.3, 0.5]])
CENTER = np.array([0.5, -1.0, 2.0])


def log_normal(position, center, precision):
    apart = position - center
    return -0.5 * apart @ precision @ apart + 1.3


TARGET = lv.Density(log_normal, (jnp.asarray(CENTER), jnp.asarray(np.linalg.inv(COVARIANCE))))
LOG_Z = 1.3 + 0.5 * np.linalg.slogdet(2 * np.pi * COVARIANCE)[1]
START = jnp.zeros((2, 3))
FIT = vi.ELBO(draws=8, estimator="stl")


@pytest.fixture(scope="module")
def full():
    return vi.fit(lv.key(0), TARGET, vi.FullRank(0.3), START, draws=400, objective=FIT, steps=1500, rate=0.05)


def test_a_full_covariance_is_exact(full):
    """Sticking the landing has no noise where q is p, so the fit ends at it."""
    q = innermost(full.kernel)
    for fit in range(2):
        one = vi.approximation(full, fit)
        np.testing.assert_allclose(one.params.mean, CENTER, atol=2e-3)
        low = vi.families.full_rank.triangle(one.params.factor)
        np.testing.assert_allclose(low @ low.T, COVARIANCE, atol=5e-3)
    assert isinstance(full.kernel, PerChain)
    assert isinstance(q, vi.Independent)
    assert (vi.pareto_k(full) < 0.5).all()
    np.testing.assert_allclose(vi.log_weights(full), LOG_Z, atol=0.02)


def test_mean_field_has_the_conditional_variances():
    posterior = vi.fit(
        lv.key(1), TARGET, vi.MeanField(0.3), START, draws=200, objective=replace(FIT, draws=64), steps=800, rate=0.05
    )
    q = vi.approximation(posterior, 0)
    np.testing.assert_allclose(q.params.mean, CENTER, atol=0.02)
    np.testing.assert_allclose(np.exp(2 * q.params.log_scale) * np.diag(np.linalg.inv(COVARIANCE)), 1.0, atol=0.03)


def test_a_fit_is_a_posterior(full, tmp_path):
    draws = np.asarray(full.draws)
    assert draws.shape == (2, 400, 3)
    assert np.abs(z_of(draws[0], CENTER)).max() < 5
    longer = full.more(lv.key(5), TARGET, 50)
    assert np.asarray(longer.draws).shape == (2, 450, 3)
    np.testing.assert_array_equal(np.asarray(longer.draws)[:, :400], draws)
    assert "FullRank fitted" in longer.kernel.law().words
    full.save(tmp_path / "fit")
    again = lv.Posterior.load(tmp_path / "fit")
    np.testing.assert_array_equal(np.asarray(again.draws), draws)
    np.testing.assert_array_equal(vi.approximation(again, 1).params.mean, vi.approximation(full, 1).params.mean)


def test_evidence_from_q(full):
    found = lv.log_evidence(lv.key(2), TARGET, vi.approximation(full), method="importance")
    assert abs(float(np.mean(found.log_z)) - LOG_Z) < 0.02


def test_weights_correct_an_unfinished_fit():
    """With weights p/q the mean of p is met from a q that is not there yet."""
    how = dict(steps=2, rate=1e-3, draws=4000, weights=True)
    posterior = vi.fit(lv.key(3), lv.Density(bell), vi.MeanField(1.1), jnp.full(1, 0.7), **how)
    mean, weights, draws = float(posterior.expect(identity)), posterior.weights(), np.asarray(posterior.draws)
    error = np.sqrt((weights**2 * (draws - mean) ** 2).sum())
    assert abs(mean) < 5 * error < 0.2
    assert abs(draws.mean() - 0.7) < 0.1
    assert posterior.kernel.law().kind == "exact"


def bell(u):
    return -0.5 * u**2


def identity(position):
    return position


WIDE = vi.Approximation(vi.MeanField(), vi.MeanField(0.5).init(lv.key(0), jnp.asarray(CENTER)))


def test_bounds_are_ordered():
    of = lambda objective, seed: vi.bound(lv.key(seed), TARGET, WIDE, objective, n=2000)
    found = [of(vi.ELBO(), 1), of(vi.Renyi(0.5, draws=8), 2), of(vi.IWAE(8), 3), of(vi.IWAE(200), 4)]
    for below, above in itertools.pairwise(found):
        assert above.value - below.value > 3 * np.hypot(above.error, below.error)
    assert found[-1].value < LOG_Z + 5 * found[-1].error


def test_the_error_of_a_bound_is_its_spread():
    """Over keys: χ² of 40 values against their stated errors, within five of its standard deviations."""
    found = [vi.bound(lv.key(seed), TARGET, WIDE, vi.ELBO(), n=2000) for seed in range(40)]
    values, errors = np.array(found).T
    square = ((values - values.mean()) ** 2).sum() / (errors**2).mean()
    assert abs(square - 39) < 5 * np.sqrt(2 * 39)


def test_fit_is_a_tuner():
    states = begin_all(lv.key(0), vi.Independent(vi.MeanField(0.3)), TARGET, START)
    kernel, moved = vi.Fit(steps=50)(lv.key(1), vi.Independent(vi.MeanField(0.3)), TARGET, states)
    assert isinstance(kernel, PerChain)
    assert jax.tree.leaves(moved.position)[0].shape == (2, 3)
    with pytest.raises(TypeError, match="the kernel is SGLD"):
        vi.Fit()(lv.key(1), lv.SGLD(0.1), TARGET, states)


def broken(position):
    """Climbs to a cliff on the right of 0, beyond which it is NaN; a plain hill on the left."""
    x = position[0]
    return jnp.where(x > 0, 3 * x + 0.0 * jnp.log(2.0 - x), -50 * (x + 1) ** 2)


def test_nan_is_said(untold):
    how = dict(steps=60, rate=0.1, draws=60)
    with pytest.raises(FloatingPointError, match=r"NaN or infinite in 2 of 2 fits.*lower `rate`"):
        vi.fit(lv.key(0), lv.Density(broken), vi.MeanField(0.1), jnp.full((2, 1), 1.2), **how)
    with pytest.warns(UserWarning, match="in 1 of 2 fits"), pytest.warns(UserWarning, match="chain 0 has diverged"):
        posterior = vi.fit(lv.key(0), lv.Density(broken), vi.MeanField(0.1), jnp.array([[1.2], [-1.0]]), **how)
    assert posterior.diverged == (0,)


def test_what_is_no_fit_is_refused():
    posterior = lv.sample(lv.key(0), lv.SGLD(0.01), TARGET, START, draws=5)
    with pytest.raises(TypeError, match="the posterior is of SGLD"):
        vi.approximation(posterior)
    with pytest.raises(TypeError, match=r"vi\.fit: the family is str"):
        vi.fit(lv.key(0), TARGET, "normal", START)
    with pytest.raises(TypeError, match="has none"):
        vi.log_weights(vi.fit(lv.key(0), TARGET, vi.Delta(), START, steps=5, draws=5))
