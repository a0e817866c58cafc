"""The kernelised Stein discrepancy: closed forms, a null that is not rejected, alternatives that are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from langevin.diagnostics.stein import BLOCK, ksd


def by_hand(x, s, kernel, length):
    """u(x, y) by automatic differentiation, pair by pair."""

    def k(a, b):
        q = jnp.sum((a - b) ** 2)
        return (1 + q / length**2) ** -0.5 if kernel == "imq" else jnp.exp(-0.5 * q / length**2)

    def u(a, sa, b, sb):
        cross = jax.jacfwd(jax.grad(k, 1), 0)(a, b)
        return sa @ sb * k(a, b) + sa @ jax.grad(k, 1)(a, b) + sb @ jax.grad(k, 0)(a, b) + jnp.trace(cross)

    pairs = jax.vmap(jax.vmap(u, (None, None, 0, 0)), (0, 0, None, None))
    return np.asarray(pairs(x, s, x, s), np.float64)


@pytest.mark.parametrize("kernel", ["imq", "rbf"])
def test_it_is_what_autodiff_says(kernel, key):
    x, s = jax.random.normal(key, (2, 9, 3))
    u = by_hand(x, s, kernel, 1.3)
    v = ksd(x, s, kernel=kernel, length=1.3)
    np.testing.assert_allclose(v.squared, u.mean(), rtol=1e-4)
    off = (u.sum() - np.trace(u)) / (9 * 8)
    np.testing.assert_allclose(ksd(x, s, kernel=kernel, statistic="U", length=1.3).squared, off, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_blocks_do_not_matter(key):
    x = jax.random.normal(key, (BLOCK + 37, 2))
    u = by_hand(x, -x, "imq", 1.0)
    np.testing.assert_allclose(ksd(x, -x, length=1.0).squared, u.mean(), rtol=2e-3)


def test_a_shift_in_closed_form(key):
    """Draws N(μ, 1) against N(0, 1) with an rbf kernel: KSD² = μ² / √(1 + 2/ℓ²)."""
    mu, length, repeats, n = 0.5, 1.0, 64, 400
    x = mu + jax.random.normal(key, (repeats, n, 1))
    values = [ksd(draws, -draws, kernel="rbf", statistic="U", length=length).squared for draws in x]
    z = (np.mean(values) - mu**2 / np.sqrt(1 + 2 / length**2)) / (np.std(values) / np.sqrt(repeats))
    assert abs(z) < 5


def test_the_null_is_not_rejected_and_its_pvalues_are_uniform(key):
    k_draw, *keys = jax.random.split(key, 101)
    x = jax.random.normal(k_draw, (100, 150, 2))
    p = np.array([ksd(a, -a, bootstrap=200, key=k).pvalue for a, k in zip(x, keys, strict=True)])
    assert abs(p.mean() - 0.5) < 5 * np.sqrt(1 / 12 / 100)
    assert np.sum(p < 0.05) < 5 + 5 * np.sqrt(100 * 0.05 * 0.95)


@pytest.mark.parametrize("statistic", ["V", "U"])
@pytest.mark.parametrize("kernel", ["imq", "rbf"])
@pytest.mark.parametrize("change", ["shift", "scale"])
def test_alternatives_are_detected(change, kernel, statistic, key):
    k_draw, k_boot = jax.random.split(key)
    z = jax.random.normal(k_draw, (500, 2))
    x = z + 0.3 if change == "shift" else 1.4 * z
    assert ksd(x, -x, kernel=kernel, statistic=statistic, bootstrap=300, key=k_boot).pvalue < 0.01


def test_signs_of_a_chain_are_dependent(key):
    """An AR(1) chain from the truth is rejected too often by independent signs, not by dependent ones."""
    k_noise, k_one, k_two = jax.random.split(key, 3)
    noise = np.asarray(jax.random.normal(k_noise, (60, 400)))
    x = np.zeros_like(noise)
    x[:, 0] = noise[:, 0]
    for t in range(1, 400):
        x[:, t] = 0.9 * x[:, t - 1] + np.sqrt(1 - 0.81) * noise[:, t]
    reject = lambda k, flip: np.mean(
        [
            ksd(a[:, None], -a[:, None], bootstrap=100, key=one, flip=flip).pvalue < 0.05
            for a, one in zip(x, jax.random.split(k, 60), strict=True)
        ]
    )
    assert reject(k_one, 0.5) > 0.4
    assert reject(k_two, 0.02) < 0.25


def test_mistakes_get_a_sentence():
    with pytest.raises(ValueError, match="both must be"):
        ksd(np.zeros((3, 2)), np.zeros((3, 1)))
    with pytest.raises(ValueError, match="'imq' or 'rbf'"):
        ksd(np.zeros((3, 2)), np.zeros((3, 2)), kernel="cosine")
