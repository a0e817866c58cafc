"""Variances of gradients are those known of Gaussians, split by what makes them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import langevin as lv
from langevin import vi
from langevin.nets.bnn import NormalPrior
from langevin.targets.bayes import Bayes
from langevin.vi import variance

PRECISION = np.array([[1.5, -0.8], [-0.8, 1.0]])
MEAN, SCALE = np.array([0.4, -0.3]), np.array([0.5, 0.8])
Q = vi.Approximation(
    vi.MeanField(), vi.MeanField().init(jax.random.key(0), jnp.asarray(MEAN))._replace(log_scale=jnp.log(SCALE))
)
Y = np.array([0.5, -1.0, 2.0, 0.3, 1.1])


def log_normal(position, precision):
    return -0.5 * position @ precision @ position


def log_likelihood(theta, y):
    return -0.5 * (y - theta) ** 2


def spread(of, n=30):
    """z-score's mean and error, of estimates from keys of their own."""
    values = np.asarray([of(lv.key(seed)) for seed in range(n)])
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(n) + 1e-12


def test_draws_of_a_gaussian():
    """g_m = −P θ, g_log σ = 1 − σ ε (P θ) with θ = m + σ ε; there are no batches."""
    target = lv.Density(log_normal, (jnp.asarray(PRECISION, jnp.float32),))
    of_mean = (PRECISION**2 * SCALE**2).sum()
    slope = PRECISION @ MEAN
    others = PRECISION**2 @ SCALE**2 - np.diag(PRECISION) ** 2 * SCALE**2
    of_scale = (SCALE**2 * (slope**2 + others + 2 * np.diag(PRECISION) ** 2 * SCALE**2)).sum()
    square = (slope**2).sum() + ((1 - SCALE**2 * np.diag(PRECISION)) ** 2).sum()

    def of(key):
        found = vi.gradient_variance(key, target, Q, n=400)
        assert found.data == 0
        return found.parts["mean"].draws, found.parts["log_scale"].draws, found.total, found.signal**2 * found.total

    mean, error = spread(of)
    assert np.abs((mean - [of_mean, of_scale, of_mean + of_scale, square]) / error).max() < 5


def bayes(batch, order="replacement"):
    return Bayes(NormalPrior(jnp.asarray(2.0)), log_likelihood, jnp.asarray(Y, jnp.float32), batch, order)


def expected(batch, order):
    """Parts by data and by draws: of the mean, and of log σ."""
    n, m, s = len(Y), 0.2, 0.6
    of_batch = Y.var() / batch * (1 if order == "replacement" else (n - batch) / (n - 1))
    by_draws = n**2 * s**2 * (of_batch + (Y.mean() - m) ** 2 + 2 * s**2)
    return n**2 * of_batch, n**2 * s**2, 0.0, by_draws


@pytest.mark.parametrize("order", ["replacement", "epoch"])
def test_batches_and_draws_of_a_gaussian(order):
    """g_m = N (ȳ_b − θ) and g_log σ = N (ȳ_b − θ) σ ε, up to what is known; batches of 2 of 5."""
    family = vi.MeanField(0.6)
    q = family, family.init(jax.random.key(0), jnp.asarray(0.2))

    def of(key):
        parts = vi.gradient_variance(key, bayes(2, order), q, n=400).parts
        return [value for name in ("mean", "log_scale") for value in (parts[name].data, parts[name].draws)]

    mean, error = spread(of)
    assert np.abs((mean - expected(2, order)) / error).max() < 5


def test_a_mutant_that_takes_one_noise_for_both_is_caught(monkeypatch):
    """With the draws of a batch tied together, all variance would be the data's."""
    with jax.debug_key_reuse(False):
        monkeypatch.setattr(variance.jax.random, "split", tied(jax.random.split))
        variance._moments.clear_cache()
        with pytest.raises(AssertionError):
            test_draws_of_a_gaussian()
    variance._moments.clear_cache()


def tied(split):
    def parted(key, num=2):
        keys = split(key, num)
        return keys.at[3].set(keys[2]) if num == 4 else keys

    return parted


def test_a_table_of_estimators():
    target = lv.Density(log_normal, (jnp.asarray(PRECISION, jnp.float32),))
    near = jnp.asarray(np.log(1 / np.sqrt(np.diag(PRECISION))), jnp.float32)
    q = vi.Approximation(vi.MeanField(), vi.MeanField().init(lv.key(0), jnp.zeros(2))._replace(log_scale=near))
    found = {f"{k} draws": vi.ELBO(draws=k) for k in (1, 10)} | {"stl": vi.ELBO(draws=1, estimator="stl")}
    table = vi.compare_gradients(lv.key(1), target, q, found, n=100)
    assert list(table.columns) == ["total", "data", "draws", "signal", "mean", "log_scale"]
    np.testing.assert_allclose(table["mean"] + table["log_scale"], table["total"], rtol=1e-6)
    assert 5 < table["total"]["1 draws"] / table["total"]["10 draws"] < 20
    assert table["total"]["stl"] < table["total"]["1 draws"]


def test_what_has_no_variance_is_refused():
    target = lv.Density(log_normal, (jnp.asarray(PRECISION, jnp.float32),))
    with pytest.raises(ValueError, match="n is 1"):
        vi.gradient_variance(lv.key(0), target, Q, n=1)
    with pytest.raises(TypeError, match=r"vi\.gradient_variance: the family is str"):
        vi.gradient_variance(lv.key(0), target, ("normal", ()))
